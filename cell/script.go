package cell

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// besideFrom is the size in bytes from which scripts are stored beside their records
// (Options.ScriptsBeside). Smaller scripts need less space and time in the records.
const besideFrom = 8 << 10

// ScriptOf reports whether a key belongs to the record of a script. sum is the name of the text
// that the record refers to. It is empty if the record contains the text, or if value is nil or not
// a record.
func ScriptOf(key string, value []byte) (sum string, is bool) {
	if !strings.HasPrefix(key, scriptPrefix) {
		return "", false
	}
	x := &scriptRecord{}
	if value == nil || json.Unmarshal(value, x) != nil {
		return "", true
	}
	return x.Sum, true
}

// ScriptSum returns the name of a text: its SHA-256 in hexadecimal.
func ScriptSum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// beside is a script that is stored beside its record.
type beside struct {
	sum  string
	size int64
	text []byte // until Changes has returned it
}

// ScriptBeside returns the name of the job's script if it is stored beside its record. The script
// is then not in the request.
func (j *Job) ScriptBeside() (sum string, is bool) {
	if j.beside == nil {
		return "", false
	}
	return j.beside.sum, true
}

// putBeside stores a large script of a job beside its record.
func (c *Cell) putBeside(j *Job) {
	text := j.asked.Script
	if !c.options.ScriptsBeside || len(text) < besideFrom {
		return
	}
	if j.beside == nil {
		j.beside = &beside{ScriptSum(text), int64(len(text)), text}
	}
	r := *j.asked
	r.Script = nil // many jobs may share the request without it
	j.asked = &r
}

// copyBeside gives a copy of a job the script of the job.
func (j *Job) copyBeside(from *Job) {
	if from.beside != nil && j.asked.Script == nil {
		copied := *from.beside
		j.beside = &copied
	}
}

// MoveScripts moves large scripts out of records, for jobs that were submitted before scripts were
// stored beside them. It moves about the given number of bytes per call. The next Changes returns
// the new records. n is the number of moved scripts.
func (c *Cell) MoveScripts(bytes int) (n int) {
	for _, j := range c.Jobs() {
		size := len(j.script())
		if !c.options.ScriptsBeside || size < besideFrom {
			continue
		}
		j.asked, j.own = j.Request(), nil
		c.putBeside(j)
		c.share(j)
		c.keepBeside(j)
		c.touchJob(j, jobScript)
		if n++; bytes <= size {
			return n
		}
		bytes -= size
	}
	return n
}

// ownScript is a text that jobs of one user have as their script.
type ownScript struct{ owner, sum string }

// besideRoom returns the additional bytes for a script beside its record: 0 if another job of the
// user has the same script.
func (c *Cell) besideRoom(j *Job) int64 {
	if j.beside == nil || c.keeping.scripts[ownScript{j.Owner(), j.beside.sum}] > 0 {
		return 0
	}
	return j.beside.size
}

// keepBeside counts the script of a new job, and forgetBeside subtracts that of a job that has
// left.
func (c *Cell) keepBeside(j *Job) {
	if j.beside == nil {
		return
	}
	size, more := int64(0), c.besideRoom(j)
	c.keep(j.Owner(), &size, more)
	if more > 0 {
		c.keepAside(j.Owner(), 1, more)
	}
	if c.keeping.scripts == nil {
		c.keeping.scripts = map[ownScript]int{}
	}
	c.keeping.scripts[ownScript{j.Owner(), j.beside.sum}]++
	j.countedBeside = true
}

func (c *Cell) forgetBeside(j *Job) {
	if !j.countedBeside {
		return
	}
	j.countedBeside = false
	key := ownScript{j.Owner(), j.beside.sum}
	if c.keeping.scripts[key]--; c.keeping.scripts[key] == 0 {
		delete(c.keeping.scripts, key)
		size := j.beside.size
		c.keepAside(j.Owner(), -1, -size)
		c.keep(j.Owner(), &size, 0)
	}
}

// keepAside counts what is beside the records of a user.
func (c *Cell) keepAside(owner string, files, bytes int64) {
	if c.keeping.aside == nil {
		c.keeping.aside = map[string]aside{}
	}
	a := c.keeping.aside[owner]
	a.files += files
	a.bytes += bytes
	if c.keeping.aside[owner] = a; a.files == 0 {
		delete(c.keeping.aside, owner)
	}
}
