package cell

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// separateFrom is the size in bytes from which scripts are stored in files instead of records
// (Options.SeparateScripts). Smaller scripts need less space and time in records.
const separateFrom = 8 << 10

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

// scriptFile is a script that is stored in a file instead of a record.
type scriptFile struct {
	sum  string
	size int64
	text []byte // until Changes has returned it
}

// SeparateScript returns the name of the job's script if it is stored in a file. The request then has
// no script.
func (j *Job) SeparateScript() (sum string, is bool) {
	if j.scriptFile == nil {
		return "", false
	}
	return j.scriptFile.sum, true
}

// separateScript moves a large script of a job from its request to a file.
func (c *Cell) separateScript(j *Job) {
	text := j.asked.Script
	if !c.options.SeparateScripts || len(text) < separateFrom {
		return
	}
	if j.scriptFile == nil {
		j.scriptFile = &scriptFile{ScriptSum(text), int64(len(text)), text}
	}
	r := *j.asked
	r.Script = nil // many jobs may share the request without it
	j.asked = &r
}

// copyScriptFile gives a copy of a job the script of the job.
func (j *Job) copyScriptFile(from *Job) {
	if from.scriptFile != nil && j.asked.Script == nil {
		copied := *from.scriptFile
		j.scriptFile = &copied
	}
}

// MoveScripts moves large scripts from records to files, for jobs that an earlier version has
// stored. It moves about the given number of bytes per call. The next Changes returns the new
// records. n is the number of moved scripts.
func (c *Cell) MoveScripts(bytes int) (n int) {
	for _, j := range c.Jobs() {
		size := len(j.script())
		if !c.options.SeparateScripts || size < separateFrom {
			continue
		}
		j.asked, j.own = j.Request(), nil
		c.separateScript(j)
		c.share(j)
		c.countScriptFile(j)
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

// scriptFileRoom returns the additional bytes for a script in a file: 0 if another job of the user has
// the same script.
func (c *Cell) scriptFileRoom(j *Job) int64 {
	if j.scriptFile == nil || c.keeping.scripts[ownScript{j.Owner(), j.scriptFile.sum}] > 0 {
		return 0
	}
	return j.scriptFile.size
}

// countScriptFile counts the script of a new job in a file. uncountScriptFile undoes this when the job leaves.
func (c *Cell) countScriptFile(j *Job) {
	if j.scriptFile == nil {
		return
	}
	size, more := int64(0), c.scriptFileRoom(j)
	c.keep(j.Owner(), &size, more)
	if more > 0 {
		c.keepAside(j.Owner(), 1, more)
	}
	if c.keeping.scripts == nil {
		c.keeping.scripts = map[ownScript]int{}
	}
	c.keeping.scripts[ownScript{j.Owner(), j.scriptFile.sum}]++
	j.scriptCounted = true
}

func (c *Cell) uncountScriptFile(j *Job) {
	if !j.scriptCounted {
		return
	}
	j.scriptCounted = false
	key := ownScript{j.Owner(), j.scriptFile.sum}
	if c.keeping.scripts[key]--; c.keeping.scripts[key] == 0 {
		delete(c.keeping.scripts, key)
		size := j.scriptFile.size
		c.keepAside(j.Owner(), -1, -size)
		c.keep(j.Owner(), &size, 0)
	}
}

// keepAside counts the files and bytes of a user's scripts.
func (c *Cell) keepAside(owner string, files, bytes int64) {
	if c.keeping.scriptFiles == nil {
		c.keeping.scriptFiles = map[string]scriptSpace{}
	}
	a := c.keeping.scriptFiles[owner]
	a.files += files
	a.bytes += bytes
	if c.keeping.scriptFiles[owner] = a; a.files == 0 {
		delete(c.keeping.scriptFiles, owner)
	}
}
