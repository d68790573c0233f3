module github.com/execd-project/execd

go 1.26
