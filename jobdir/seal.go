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

// mostSealed is the size in bytes of the files above which each file is written to the disk by
// itself.
const mostSealed = 1 << 20

// seal returns the content of the file "start": a record of one line, followed by the contents of
// other files of the directory, and a checksum. Only this file is written to the disk before a
// start is acknowledged, which costs a single sync. A power loss may destroy the other files;
// Restore then rebuilds them from this one.
//
//	RECORD
//	file NAME SIZE
//	DATA
//	...
//	end CHECKSUM
func seal(record []byte, files []File) []byte {
	const line = 64 // exceeds the length of a line before a file or at the end
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

// IsRecord reports whether a text can be the record of a file "start": one line, with its newline.
func IsRecord(text []byte) bool {
	return len(text) > 0 && bytes.IndexByte(text, '\n') == len(text)-1
}

// checksum returns the FNV-1a checksum of b. Importing package hash would make the supervisor
// larger.
func checksum(b []byte) uint64 {
	sum := uint64(14695981039346656037)
	for _, c := range b {
		sum = (sum ^ uint64(c)) * 1099511628211
	}
	return sum
}

// unseal parses the result of seal. A record without files, as in an older version, is valid by
// itself. ok is false for any other text.
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

// Start reads the file "start": the record of the program that ordered the start, and the contents
// of other files that were written to the disk with it, for Restore. If there is no such file,
// errors.Is(err, fs.ErrNotExist) holds.
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

// Restore rewrites files of a directory with the contents that Start has returned. After a power
// loss the existing files may have any content, or be missing. Restore leaves an unchanged file
// alone, because the disk may be full. It writes the config last.
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
