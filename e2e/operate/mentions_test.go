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

// elsewhere are commands of sentences that cannot be tried here, and who does, or why nobody does.
var elsewhere = map[string]string{
	"docker pull": "docker is not to be had where tests run",
	"kind delete clusters $(kind get clusters | grep ^bw-)":                          "it is about docker; e2e/kind deletes its clusters",
	"kubectl delete crd -l app.kubernetes.io/part-of=breakwater":                     "the federation has no chart; e2e/charts deletes those of its charts so",
	"kubectl breakwater force pod/NAME --reason TEXT --delete":                       "it asks, and there is nobody; docs/explain.md has it with --yes, and is run",
	"kubectl breakwater simulate delete namespace shop":                              "it fails, since a floor would be held; docs/explain.md has what it prints, and is run",
	"kubectl breakwater watch [PROTECTOR]":                                           "it does not end; a test of its own watches",
	"kubectl get endpointslices -n default -l kubernetes.io/service-name=kubernetes": "an API server at a loopback address has no EndpointSlice",
	"kubectl describe certificate -n breakwater-system":                              "the federation has no cert-manager; e2e/gitops asks for certificates where it is",
}

// stand is what stands for the words of a command that a reader is to replace. They are of the stage in testdata/mentions.sh.
var stand = strings.NewReplacer(
	"namespace NAME", "namespace shop", "pod NAME", "pod web-0", "pod/NAME", "pod/web-0", "NAMESPACE", "shop", "[PROTECTOR]", "web", "PROTECTOR", "web",
	"SERVICEACCOUNT", "reader", "TEXT", "'a drill'", "NODE", `"$(node)"`, "...", "drill",
)

// wrongly are commands that a page must not have, each for a reason of its own.
var wrongly = []string{
	"make nothing", "make sim NOTHING=1", "go test ./nothing", "go test ./webhook -bench Nothing", "breakwater nothing", "breakwater webhook --nothing",
	"kubectl breakwater nothing", "kubectl breakwater denials --nothing", "kubectl breakwater status -n NAMESPACE nothing", "kubectl nothing", "kubectl rollout nothing",
	"kubectl drain --nothing", "kubectl get nothing", "kubectl get pods -A -l nothing=true", "kubectl annotate pod nothing a=b",
	"kubectl --context core patch cell worker-2 --type merge -p '{\"spec\":{\"whenStale\":\"Nothing\"}}'", "helm nothing", "helm upgrade --nothing",
	"terraform nothing", "tofu init -nothing",
}

// What pages say in sentences is typed as what they show is. A command that is whole is run, those that write as a dry run, and of one that is but
// named, or that stands in a block which no test runs, its program has to know the name and the flags.
func TestCommandsInSentencesAreRight(t *testing.T) {
	all, err := doctest.All(root)
	if err != nil {
		t.Fatal(err)
	}
	stage, err := os.ReadFile("testdata/mentions.sh")
	if err != nil {
		t.Fatal(err)
	}
	s := setting(t, doctest.Federation)
	s.Prelude += string(stage)
	binaries.LogVersionOnFailure(t, "bash")
	shell, err := doctest.Begin(t.Context(), s.Folder, s.Variables)
	if err != nil {
		t.Fatal(err)
	}
	defer shell.End()
	r := reader{T: t, shell: shell, tried: map[string]string{}, told: map[string]string{}}
	r.want(s.Prelude + "\nstage")
	defer r.want("strike")
	shown := 0
	for _, page := range all {
		if page.Path == "CHANGELOG.md" { // it tells of what was
			continue
		}
		for _, mention := range page.Mentions {
			if wrong := r.try(mention.Text); wrong != "" {
				t.Errorf("%s:%d: %s\n%s", page.Path, mention.Line, mention.Text, wrong)
			}
		}
		for _, command := range page.NotRun() {
			shown++
			for _, words := range command.Simple() {
				if wrong := r.isThere(words); wrong != "" {
					t.Errorf("%s:%d: %q\n%s", page.Path, command.Line, words, wrong)
				}
			}
		}
	}
	for _, text := range wrongly {
		if wrong := r.tryAnew(text); wrong == "" {
			t.Errorf("nothing is found wrong with %q", text)
		}
	}
	for text := range elsewhere {
		if _, mentioned := r.tried[text]; !mentioned {
			t.Errorf("no page mentions %q any more", text)
		}
	}
	t.Logf("%d commands of sentences, and %d of blocks that nobody runs", len(r.tried), shown)
}

// reader types what pages say.
type reader struct {
	*testing.T
	shell *doctest.Session
	// tried is what was wrong with a command, empty for nothing, and told what a program has said of itself.
	tried, told map[string]string
}

func (r *reader) want(command string) {
	r.Helper()
	if out, code, err := r.shell.Do(command); err != nil || code != 0 {
		r.Fatalf("exit code %d, %v\n%s", code, err, out)
	}
}

// try tells what is wrong with a command, once.
func (r *reader) try(text string) (wrong string) {
	r.Helper()
	wrong, tried := r.tried[text]
	if !tried {
		wrong = r.tryAnew(text)
		r.tried[text] = wrong
	}
	return wrong
}

func (r *reader) tryAnew(text string) (wrong string) {
	r.Helper()
	if why, ok := elsewhere[text]; ok {
		r.Logf("not tried: %s: %s", text, why)
		return ""
	}
	words := strings.Fields(text)
	if wrong := r.isThere(words); wrong != "" {
		return wrong
	}
	if words[0] == "kubectl" && isWhole(words) {
		return r.run(text)
	}
	return ""
}

// isThere tells what is wrong with a command that is not run. Of programs that are not to be had here nothing is known.
func (r *reader) isThere(words []string) string {
	r.Helper()
	switch words[0] {
	case "make":
		return makes(words[1:])
	case "go":
		return goes(words)
	case "breakwater", "helm", "terraform", "tofu":
		return r.isKnown(words)
	case "kubectl":
		if words[1] == "krew" {
			return ""
		}
		return r.isKnown(withoutFlag(withoutFlag(words, "--context"), "--kubeconfig"))
	}
	return ""
}

// makes tells what is wrong with the target and the variables of a make.
func makes(words []string) string {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return err.Error()
	}
	if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(words[0]) + `:.*## `).Match(makefile) {
		return "make help shows no such target"
	}
	for _, word := range words[1:] {
		name, _, set := strings.Cut(word, "=")
		if !set || !strings.Contains(string(makefile), name) {
			return "the Makefile heeds no " + name
		}
	}
	return ""
}

// goes tells what is wrong with a command of Go: packages that it names are there, and so are their benchmarks.
func goes(words []string) string {
	for _, word := range words {
		if !strings.HasPrefix(word, "./") {
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, word, "*.go"))
		if err != nil || len(files) == 0 {
			return fmt.Sprintf("there is no package %s (%v)", word, err)
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
			return "there is no such benchmark in " + word
		}
	}
	return ""
}

var (
	usage = regexp.MustCompile(`(?im)^usage:\s*(.*)$`)
	// name is a word of the name of a command; an operand has a capital, a digit or another sign.
	name = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// isKnown tells what is wrong with the name of a command, or with its flags: its help is to be about it, and to show them.
func (r *reader) isKnown(words []string) string {
	r.Helper()
	named, flags := parts(words)
	help := strings.Join(named, " ") + " --help"
	if named[0] == "terraform" || named[0] == "tofu" {
		help = strings.Join(named, " ") + " -help"
	}
	out, wrong := r.helps(help)
	if wrong != "" {
		return wrong
	}
	found := usage.FindStringSubmatch(out)
	if found == nil {
		return help + " shows no usage:\n" + out
	}
	if named[0] == "kubectl" {
		options, wrong := r.helps("kubectl options")
		if wrong != "" {
			return wrong
		}
		out += options
	}
	about := strings.Fields(strings.ReplaceAll(found[1], "[global options] ", ""))
	if about[1] != named[1] || len(named) > 2 && about[2] == "SUBCOMMAND" {
		return fmt.Sprintf("%s is about %q", help, found[1])
	}
	for _, flag := range flags {
		if !regexp.MustCompile(`(?m)(^|[\s,])` + regexp.QuoteMeta(flag) + `([\s,=]|$)`).MatchString(out) {
			return help + " shows no " + flag
		}
	}
	return ""
}

// helps is what a program says of itself, asked once, or what is wrong with that.
func (r *reader) helps(command string) (out, wrong string) {
	r.Helper()
	if out, told := r.told[command]; told {
		return out, ""
	}
	out, code, err := r.shell.Do(command)
	if err != nil || code != 0 {
		return "", fmt.Sprintf("%s: exit code %d, %v\n%s", command, code, err, out)
	}
	r.told[command] = out
	return out, ""
}

// parts are the words of a command that are its name, and its flags, up to a pipe.
func parts(words []string) (named, flags []string) {
	named = words
	for i, word := range words {
		flag, _, _ := strings.Cut(word, "=")
		switch {
		case word == "|":
			return named, flags
		case strings.HasPrefix(word, "-"):
			flags = append(flags, flag)
			fallthrough
		case !name.MatchString(word):
			named = named[:min(i, len(named))]
		}
	}
	return named, flags
}

// isWhole tells whether a command of kubectl is more than a name: it can be run.
func isWhole(words []string) bool {
	words = withoutFlag(words, "--context")
	return len(words) > 3 || len(words) == 3 && words[1] == "get"
}

// withoutFlag are words without a flag of two words.
func withoutFlag(words []string, flag string) []string {
	if at := slices.Index(words, flag); at > 0 {
		return slices.Concat(words[:at], words[at+2:])
	}
	return words
}

// writing are the verbs of kubectl that write.
var writing = []string{"annotate", "delete", "label", "patch", "replace", "scale", "taint"}

// finding is the exit code of those commands of the plugin that tell of a fault by it.
var finding = map[string]int{"doctor": 1, "drain-plan": 2}

// run runs a command where it finds something: in the clusters that it is about.
func (r *reader) run(text string) string {
	r.Helper()
	words, typed := strings.Fields(text), stand.Replace(text)
	verb := withoutFlag(words, "--context")[1]
	if slices.Contains(writing, verb) {
		typed += " --dry-run=server"
	}
	contexts := []string{"core", "worker-1"}
	if verb == "breakwater" || slices.Contains(words, "--context") {
		contexts = []string{"worker-1"}
	}
	var wrong []string
	for _, context := range contexts {
		out, code, err := r.shell.Do("kubectl config use-context " + context + " >/dev/null; kubectl config set-context --current --namespace shop >/dev/null; " + typed)
		if err == nil && (code == 0 || code == finding[words[min(2, len(words)-1)]]) && out != "" && !strings.Contains(out, "No resources found") {
			r.Logf("%s: $ %s", context, typed)
			return ""
		}
		wrong = append(wrong, fmt.Sprintf("%s, in %s: exit code %d, %v\n%s", typed, context, code, err, out))
	}
	return strings.Join(wrong, "\n")
}
