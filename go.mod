module github.com/execd-project/execd

go 1.26

require pgregory.net/rapid v1.3.0
