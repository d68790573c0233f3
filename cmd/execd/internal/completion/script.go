package completion

import (
	"io"
	"slices"
	"strings"

	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/printer"
)

// Usage is the output of --help.
const Usage = `Usage: execd completion bash|zsh|fish

Prints a script that completes command lines of execd and of Grid Engine's commands in a
shell: commands, options, and the names and job numbers that the daemon knows. If the
daemon does not answer in time (150 ms), only what needs no daemon is completed. The
packages install the scripts; to use one in the running shell:

  bash: source <(execd completion bash)
  zsh:  source <(execd completion zsh)
  fish: execd completion fish | source

  --help  print this text

Exit status: 0 if done, 2 for wrong usage.
`

// Shells are the shells that there are scripts for.
var Shells = []string{"bash", "zsh", "fish"}

// Script prints the script for the shell that a command line names.
func (t *Table) Script(args []string, stdout io.Writer) error {
	line, err := options.Parse(Usage, args, nil)
	if err != nil {
		return err
	}
	if len(line.Operands) != 1 || !slices.Contains(Shells, line.Operands[0]) {
		return options.Usagef("expected one of %s", strings.Join(Shells, ", "))
	}
	programs := []string{"execd"}
	for _, c := range t.Commands {
		if c.GridEngine {
			programs = append(programs, c.Name)
		}
	}
	text := map[string]string{"bash": bash, "zsh": zsh, "fish": fish}[line.Operands[0]]
	_, err = io.WriteString(stdout, strings.NewReplacer("@PROGRAMS@", strings.Join(programs, " "), "@WORD@", Word).Replace(text))
	return err
}

// Answer prints the candidates for a command line as the scripts read them: "files" or "words" in
// the first line, then a candidate in each line, and a tab and its description where it has one.
func (t *Table) Answer(words []string, stdout io.Writer) error {
	candidates, files := t.Complete(words)
	first := "words"
	if files {
		first = "files"
	}
	if _, err := printer.Fprintf(stdout, "%s\n", first); err != nil {
		return err
	}
	for _, c := range candidates {
		if c.Word != printable.String(c.Word) {
			continue // a name that cannot be typed
		}
		text, _, _ := strings.Cut(c.Text, "\n")
		line := c.Word
		if text != "" {
			line += "\t" + printable.String(text)
		}
		if _, err := printer.Fprintf(stdout, "%s\n", printer.Trusted(line)); err != nil {
			return err
		}
	}
	return nil
}

// In bash, readline takes the characters of COMP_WORDBREAKS for the ends of words: what was typed
// up to the last of them stays in the line, and may not be in the candidates.
const bash = `# Completion of execd and of Grid Engine's commands for bash: made by execd completion bash.
_execd() {
	local line=${COMP_LINE:0:COMP_POINT} words typed head breaks answer candidate
	read -ra words <<<"$line"
	[[ $line == *[[:space:]] ]] && words+=("")
	typed=${words[-1]}
	for candidate in @ : =; do # in this order: [= and [: have meanings of their own
		[[ $COMP_WORDBREAKS == *"$candidate"* ]] && breaks+=$candidate
	done
	[[ -n $breaks ]] && head=${typed%"${typed##*[$breaks]}"}
	COMPREPLY=()
	mapfile -t answer < <(command execd @WORD@ "${words[@]}" 2>/dev/null)
	if [[ ${answer[0]} == files ]]; then
		compopt -o default 2>/dev/null
		return
	fi
	for candidate in "${answer[@]:1}"; do
		candidate=${candidate%%$'\t'*}
		COMPREPLY+=("${candidate#"$head"}")
	done
}
complete -F _execd @PROGRAMS@
`

const zsh = `#compdef @PROGRAMS@
# Completion of execd and of Grid Engine's commands for zsh: made by execd completion zsh.
_execd() {
	local -a answer candidates descriptions
	local line
	answer=("${(@f)$(command execd @WORD@ "${(@)words[1,CURRENT]}" 2>/dev/null)}")
	if [[ ${answer[1]} == files ]]; then
		_files
		return
	fi
	for line in "${(@)answer[2,-1]}"; do
		[[ -n $line ]] || continue
		candidates+=("${line%%$'\t'*}")
		descriptions+=("${line/$'\t'/  -- }")
	done
	compadd -l -d descriptions -a candidates
}
if [[ ${funcstack[1]} == _execd ]]; then
	_execd "$@"
else
	compdef _execd @PROGRAMS@
fi
`

const fish = `# Completion of execd and of Grid Engine's commands for fish: made by execd completion fish.
function __execd_complete
	set -l answer (command execd @WORD@ (commandline -opc) (commandline -ct) 2>/dev/null)
	if test "$answer[1]" = files
		__fish_complete_path (commandline -ct)
	else
		printf '%s\n' $answer[2..-1]
	end
end
for program in @PROGRAMS@
	complete -c $program -f -a '(__execd_complete)'
end
`
