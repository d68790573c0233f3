package jobdir

import (
	"bytes"
	"strconv"
	"strings"
)

// File is a file of a job directory.
type File struct {
	Name string
	Data []byte
}

// mostSealed is the size of files above which they are brought to the disk one by one.
const mostSealed = 1 << 20

// seal returns the content of the file "start": a record of one line, and behind that what other
// files of the directory have, and a checksum. It is the only one of them that is brought to
// the disk before a start is acknowledged, at the cost of one: with the power the others may
// go, and are then made of it again.
//
//	RECORD
//	file NAME SIZE
//	DATA
//	...
//	end CHECKSUM
func seal(record []byte, files []File) []byte {
	const line = 64 // is more than what stands before a file, or behind all
	size := len(record) + line
	for _, f := range files {
		size += len(f.Name) + len(f.Data) + line
	}
	b := bytes.NewBuffer(make([]byte, 0, size))
	b.Write(record)
	for _, f := range files {
		b.WriteString("file " + f.Name + " " + strconv.Itoa(len(f.Data)) + "\n")
		b.Write(f.Data)
		b.WriteByte('\n')
	}
	b.WriteString("end " + strconv.FormatUint(checksum(b.Bytes()), 16) + "\n")
	return b.Bytes()
}

// checksum is FNV-1a. That of package hash would be in the supervisor as well.
func checksum(b []byte) uint64 {
	sum := uint64(14695981039346656037)
	for _, c := range b {
		sum = (sum ^ uint64(c)) * 1099511628211
	}
	return sum
}

// unseal takes apart what seal has made. A record without files is one by itself, as of an
// older version; ok is false for what seal has not made.
func unseal(text []byte) (record []byte, files []File, ok bool) {
	at := bytes.IndexByte(text, '\n') + 1
	if at == 0 || at == len(text) {
		return text, nil, true
	}
	record = text[:at]
	for at < len(text) {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			break
		}
		f := strings.Split(string(text[at:at+n]), " ")
		if len(f) == 2 && f[0] == "end" {
			sum, err := strconv.ParseUint(f[1], 16, 64)
			return record, files, err == nil && at+n+1 == len(text) && sum == checksum(text[:at])
		}
		at += n + 1
		if len(f) != 3 || f[0] != "file" {
			break
		}
		size, err := strconv.Atoi(f[2])
		if err != nil || size < 0 || size >= len(text)-at || text[at+size] != '\n' {
			break
		}
		files = append(files, File{f[1], text[at : at+size]})
		at += size + 1
	}
	return record, nil, false
}

// Start reads the file "start": what whoever ordered the start has written, and what was
// brought to the disk with it of other files. Restore makes these again.
// errors.Is(err, fs.ErrNotExist) tells that there is none.
func (d *Dir) Start() (record []byte, files []File, err error) {
	text, err := d.ReadFile(FileStart)
	if err != nil {
		return nil, nil, err
	}
	record, files, ok := unseal(text)
	if !ok {
		return nil, nil, &SyntaxError{File: d.file(FileStart), Problem: "it is not as it was written"}
	}
	return record, files, nil
}

// Restore makes files of a directory as Start has told them: after a power loss, when those
// that are there may be of any content, or of none. One that is as it was is left alone: the
// disk may be full. The config comes last.
func (d *Dir) Restore(files []File) error {
	for _, f := range files {
		if b, err := d.read(f.Name); err == nil && bytes.Equal(b, f.Data) {
			continue
		}
		if err := d.WriteFile(f.Name, f.Data); err != nil {
			return err
		}
	}
	return nil
}
