package operate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/binaries"
	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
)

// untestedCommands are commands in sentences that cannot run here, each with the reason, or with the test that runs it.
var untestedCommands = map[string]string{
	"kind delete clusters $(kind get clusters | grep ^bw-)":                          "it needs docker; e2e/kind deletes its clusters",
	"kubectl delete crd -l app.kubernetes.io/part-of=breakwater":                     "the federation has no chart; e2e/charts runs it",
	"kubectl breakwater force pod/NAME --reason TEXT --delete":                       "it prompts, and tests have no terminal; docs/how-to/plugin.md runs it with --yes",
	"kubectl breakwater watch [PROTECTOR]":                                           "it does not end; another test runs it",
	"kubectl get endpointslices -n default -l kubernetes.io/service-name=kubernetes": "an API server at a loopback address has no EndpointSlice",
	"kubectl describe certificate -n breakwater-system":                              "the federation has no cert-manager; e2e/gitops runs it",
}

// placeholders replaces the words of a command that a reader has to replace. The values name objects that testdata/mentions.sh creates.
var placeholders = strings.NewReplacer(
	"namespace NAME", "namespace shop", "pod NAME", "pod web-0", "pod/NAME", "pod/web-0", "NAMESPACE", "shop", "[PROTECTOR]", "web", "PROTECTOR", "web",
	"SERVICEACCOUNT", "reader", "TEXT", "'a drill'", "NODE", `"$(node)"`, "...", "drill",
)

// forbiddenCommands are wrong commands. The test must reject each of them for a different reason.
var forbiddenCommands = []string{
	"make nothing", "make sim NOTHING=1", "go test ./nothing", "go test ./webhook -bench Nothing", "breakwater nothing", "breakwater webhook --nothing",
	"kubectl breakwater nothing", "kubectl breakwater denials --nothing", "kubectl breakwater status -n NAMESPACE nothing", "kubectl nothing", "kubectl rollout nothing",
	"kubectl drain --nothing", "kubectl get nothing", "kubectl get pods -A -l nothing=true", "kubectl annotate pod nothing a=b",
	"kubectl --context core patch cell worker-2 --type merge -p '{\"spec\":{\"whenStale\":\"Nothing\"}}'", "helm nothing", "helm upgrade --nothing",
	"terraform nothing", "tofu init -nothing",
}

// TestCommandsInSentencesWork checks the commands that pages have in sentences, and those in blocks that no test runs. It runs complete kubectl
// commands, with a dry run if they write. For all other commands it checks that the program knows the name and the flags.
func TestCommandsInSentencesWork(t *testing.T) {
	all, err := doctest.All(root)
	if err != nil {
		t.Fatal(err)
	}
	stage, err := os.ReadFile("testdata/mentions.sh")
	if err != nil {
		t.Fatal(err)
	}
	s := newSetting(t, doctest.Federation)
	s.Prelude += string(stage)
	binaries.LogVersionOnFailure(t, "bash")
	shell, err := doctest.Begin(t.Context(), s.Folder, s.Variables)
	if err != nil {
		t.Fatal(err)
	}
	defer shell.End()
	r := commandTester{T: t, shell: shell, results: map[string]string{}, helpTexts: map[string]string{}}
	r.expectWorks(s.Prelude + "\nstage")
	defer r.expectWorks("strike")
	shown := 0
	for _, page := range all {
		if page.Path == "CHANGELOG.md" { // it describes earlier versions
			continue
		}
		for _, mention := range page.Mentions {
			if problem := r.tryOnce(mention.Text); problem != "" {
				t.Errorf("%s:%d: %s\n%s", page.Path, mention.Line, mention.Text, problem)
			}
		}
		for _, command := range page.NotRun() {
			shown++
			for _, words := range command.Simple() {
				if problem := r.unavailableReason(words); problem != "" {
					t.Errorf("%s:%d: %q\n%s", page.Path, command.Line, words, problem)
				}
			}
		}
	}
	for _, text := range forbiddenCommands {
		if problem := r.tryCommand(text); problem == "" {
			t.Errorf("%q was accepted, want an error", text)
		}
	}
	for text := range untestedCommands {
		if _, mentioned := r.results[text]; !mentioned {
			t.Errorf("no page mentions %q; remove it from the list", text)
		}
	}
	t.Logf("checked %d commands in sentences, and %d in blocks that no test runs", len(r.results), shown)
}

// commandTester tries the commands of pages.
type commandTester struct {
	*testing.T
	shell *doctest.Session
	// results has the problem of each command that was tried, "" if it works. helpTexts has the help texts of programs by command.
	results, helpTexts map[string]string
}

func (r *commandTester) expectWorks(command string) {
	r.Helper()
	if out, code, err := r.shell.Do(command); err != nil || code != 0 {
		r.Fatalf("exit code %d, %v\n%s", code, err, out)
	}
}

// tryOnce returns the problem of a command, or "". It tries each command only once.
func (r *commandTester) tryOnce(text string) (problem string) {
	r.Helper()
	problem, tried := r.results[text]
	if !tried {
		problem = r.tryCommand(text)
		r.results[text] = problem
	}
	return problem
}

func (r *commandTester) tryCommand(text string) (problem string) {
	r.Helper()
	if why, ok := untestedCommands[text]; ok {
		r.Logf("not tried: %s: %s", text, why)
		return ""
	}
	words := strings.Fields(text)
	if problem := r.unavailableReason(words); problem != "" {
		return problem
	}
	if words[0] == "kubectl" && isWhole(words) {
		return r.runCommand(text)
	}
	return ""
}

// unavailableReason returns the problem of a command that is not run, or "". It accepts all commands of programs that are not available here.
func (r *commandTester) unavailableReason(words []string) string {
	r.Helper()
	switch words[0] {
	case "make":
		return makeProblem(words[1:])
	case "go":
		return goProblem(words)
	case "breakwater", "helm", "terraform", "tofu":
		return r.nameProblem(words)
	case "kubectl":
		if words[1] == "krew" {
			return ""
		}
		return r.nameProblem(withoutFlag(withoutFlag(words, "--context"), "--kubeconfig"))
	}
	return ""
}

// makeProblem returns the problem of the target or the variables of a make command, or "".
func makeProblem(words []string) string {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return err.Error()
	}
	if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(words[0]) + `:.*## `).Match(makefile) {
		return "make help shows no such target"
	}
	for _, word := range strings.Fields(quotedPattern.ReplaceAllString(strings.Join(words[1:], " "), "quoted")) {
		name, _, set := strings.Cut(word, "=")
		if !set || !strings.Contains(string(makefile), name) {
			return "the Makefile does not use " + name
		}
	}
	return ""
}

// goProblem returns the problem of a go command, or "". The packages and benchmarks that it names must exist.
func goProblem(words []string) string {
	for _, word := range words {
		if !strings.HasPrefix(word, "./") {
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, word, "*.go"))
		if err != nil || len(files) == 0 {
			return fmt.Sprintf("package %s does not exist (%v)", word, err)
		}
		at := slices.Index(words, "-bench")
		if at < 0 || words[at+1] == "." {
			continue
		}
		named := regexp.MustCompile(`(?m)^func Benchmark\w*` + strings.TrimPrefix(strings.Trim(words[at+1], "'$"), "Benchmark"))
		if !slices.ContainsFunc(files, func(name string) bool {
			content, err := os.ReadFile(name)
			return err == nil && named.Match(content)
		}) {
			return "no such benchmark in " + word
		}
	}
	return ""
}

var (
	usagePattern = regexp.MustCompile(`(?im)^usage:\s*(.*)$`)
	// commandNamePattern matches a word of the name of a command. An operand has a capital letter, a digit or another character.
	commandNamePattern = regexp.MustCompile(`^[a-z][a-z-]*$`)
	quotedPattern      = regexp.MustCompile(`"[^"]*"`)
)

// nameProblem returns the problem of the name or the flags of a command, or "". The help of the command must be about that command, and list the
// flags.
func (r *commandTester) nameProblem(words []string) string {
	r.Helper()
	named, flags := splitCommand(words)
	help := strings.Join(named, " ") + " --help"
	if named[0] == "terraform" || named[0] == "tofu" {
		help = strings.Join(named, " ") + " -help"
	}
	out, problem := r.helpText(help)
	if problem != "" {
		return problem
	}
	found := usagePattern.FindStringSubmatch(out)
	if found == nil {
		return help + " shows no usage:\n" + out
	}
	if named[0] == "kubectl" {
		options, problem := r.helpText("kubectl options")
		if problem != "" {
			return problem
		}
		out += options
	}
	about := strings.Fields(strings.ReplaceAll(found[1], "[global options] ", ""))
	if len(named) == 1 || len(about) == 1 {
		return fmt.Sprintf("%s: want the name of a command after that of the program", strings.Join(words, " "))
	}
	if about[1] != named[1] || len(named) > 2 && about[2] == "SUBCOMMAND" {
		return fmt.Sprintf("%s shows the help of %q", help, found[1])
	}
	for _, flag := range flags {
		if !regexp.MustCompile(`(?m)(^|[\s,])` + regexp.QuoteMeta(flag) + `([\s,=]|$)`).MatchString(out) {
			return help + " shows no " + flag
		}
	}
	return ""
}

// helpText returns the help text that a command prints, or a problem. It caches the text.
func (r *commandTester) helpText(command string) (out, problem string) {
	r.Helper()
	if out, told := r.helpTexts[command]; told {
		return out, ""
	}
	out, code, err := r.shell.Do(command)
	if err != nil || code != 0 {
		return "", fmt.Sprintf("%s: exit code %d, %v\n%s", command, code, err, out)
	}
	r.helpTexts[command] = out
	return out, ""
}

// splitCommand returns the words of the name of a command, and its flags, up to a pipe.
func splitCommand(words []string) (named, flags []string) {
	named = words
	for i, word := range words {
		flag, _, _ := strings.Cut(word, "=")
		switch {
		case word == "|":
			return named, flags
		case strings.HasPrefix(word, "-"):
			flags = append(flags, flag)
			fallthrough
		case !commandNamePattern.MatchString(word):
			named = named[:min(i, len(named))]
		}
	}
	return named, flags
}

// isWhole reports whether a kubectl command is complete, so that it can run.
func isWhole(words []string) bool {
	words = withoutFlag(words, "--context")
	return len(words) > 3 || len(words) == 3 && words[1] == "get"
}

// withoutFlag returns words without a flag and its value.
func withoutFlag(words []string, flag string) []string {
	if at := slices.Index(words, flag); at > 0 {
		return slices.Concat(words[:at], words[at+2:])
	}
	return words
}

// writingVerbs are the verbs of kubectl that write.
var writingVerbs = []string{"annotate", "delete", "label", "patch", "replace", "scale", "taint"}

// faultExitCodes has the exit codes of those plugin commands that report a fault by their exit code.
var faultExitCodes = map[string]int{"doctor": 1, "drain-plan": 2}

// runCommand runs a command in the clusters that it may be about until one of them has a result, and returns the problem, or "".
func (r *commandTester) runCommand(text string) string {
	r.Helper()
	words, typed := strings.Fields(text), placeholders.Replace(text)
	verb := withoutFlag(words, "--context")[1]
	if slices.Contains(writingVerbs, verb) {
		typed += " --dry-run=server"
	}
	contexts := []string{"core", "worker-1"}
	if verb == "breakwater" || slices.Contains(words, "--context") {
		contexts = []string{"worker-1"}
	}
	var problem []string
	for _, context := range contexts {
		out, code, err := r.shell.Do("kubectl config use-context " + context + " >/dev/null; kubectl config set-context --current --namespace shop >/dev/null; " + typed)
		if err == nil && (code == 0 || code == faultExitCodes[words[min(2, len(words)-1)]]) && out != "" && !strings.Contains(out, "No resources found") {
			r.Logf("%s: $ %s", context, typed)
			return ""
		}
		problem = append(problem, fmt.Sprintf("%s, in %s: exit code %d, %v\n%s", typed, context, code, err, out))
	}
	return strings.Join(problem, "\n")
}
