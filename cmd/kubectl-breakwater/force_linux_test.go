package main

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

const forceQuestion = "Type the name of the pod to go on: "

// forceOn forces pod web-0 while no core is reachable, with a file as standard input. It reports whether the pod was annotated.
func (b *bench) forceOn(in *os.File, arguments ...string) (out string, broken bool, err error) {
	b.Helper()
	streams := genericiooptions.IOStreams{In: in, Out: &strings.Builder{}, ErrOut: &strings.Builder{}}
	root := rootCommand(streams)
	root.SetArgs(append([]string{"force", "pod/web-0", "--reason", "fire", "--core-context", "nowhere", "--kubeconfig", b.contexts, "-n", b.namespace}, arguments...))
	err = root.ExecuteContext(b.Context())
	pod := b.pods()["web-0"]
	return streams.Out.(*strings.Builder).String(), pod.Annotations[v1alpha1.AnnotationForceDelete] == "true", err
}

func TestForceAsksOnATerminal(t *testing.T) {
	for claim, c := range map[string]struct {
		typed  string
		broken bool
	}{
		"the name":                 {"web-0\n", true},
		"the name, with spaces":    {"  web-0 \n", true},
		"yes":                      {"yes\n", false},
		"y":                        {"y\n", false},
		"no":                       {"no\n", false},
		"another pod":              {"web-1\n", false},
		"the name, and more":       {"web-0 web-1\n", false},
		"nothing":                  {"\n", false},
		"the end of what is typed": {"\x04", false},
		"a part, and the end":      {"web-\x04\x04", false},
		"the name, on a next line": {"\nweb-0\n", false},
	} {
		t.Run(claim, func(t *testing.T) {
			b := newBench(t, nil)
			b.pod("web-0", "node", 0, nil)
			person, program := openTerminal(t, 80, 24)
			if _, err := person.WriteString(c.typed); err != nil {
				t.Fatal(err)
			}
			out, broken, err := b.forceOn(program)
			if !strings.Contains(out, forceQuestion) {
				t.Errorf("nobody is asked:\n%s", out)
			}
			if broken != c.broken || (err == nil) != c.broken || err != nil && err.Error() != "nothing is done" {
				t.Errorf("broken %v with error %v, want %v\n%s", broken, err, c.broken, out)
			}
		})
	}
}

func TestForceDoesNothingUntilItIsAnswered(t *testing.T) {
	b := newBench(t, nil)
	b.pod("web-0", "node", 0, nil)
	person, program := openTerminal(t, 80, 24)
	seen := &seenBy{}
	go seen.read(person)
	root := rootCommand(genericiooptions.IOStreams{In: program, Out: program, ErrOut: program})
	root.SetArgs([]string{"force", "pod/web-0", "--reason", "fire", "--delete", "--core-context", "nowhere", "--kubeconfig", b.contexts, "-n", b.namespace})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(t.Context()) }()
	testplane.Eventually(t, func() string {
		if !strings.Contains(seen.String(), forceQuestion) {
			return "nobody is asked yet:\n" + seen.String()
		}
		return ""
	})
	if pod := b.pods()["web-0"]; pod.DeletionTimestamp != nil || pod.Annotations[v1alpha1.AnnotationForceDelete] != "" {
		t.Fatalf("it was done before the answer: %+v", pod.ObjectMeta)
	}
	if _, err := person.WriteString("web-0\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if pod, there := b.pods()["web-0"]; there && pod.DeletionTimestamp == nil {
		t.Errorf("the pod is not deleted: %+v", pod.ObjectMeta)
	}
}

func TestForceAsksNobodyWhereThereIsNoTerminal(t *testing.T) {
	b := newBench(t, nil)
	b.pod("web-0", "node", 0, nil)
	reading, writing, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Close()
	if _, err := writing.WriteString("web-0\n"); err != nil {
		t.Fatal(err)
	}
	_ = writing.Close()
	none, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	for _, in := range []*os.File{reading, none} {
		out, broken, err := b.forceOn(in)
		if broken || err == nil || !strings.Contains(err.Error(), "nothing is done without --yes") || strings.Contains(out, forceQuestion) {
			t.Errorf("broken %v with error %v\n%s", broken, err, out)
		}
	}
	if out, broken, err := b.forceOn(none, "--yes"); !broken || err != nil || strings.Contains(out, forceQuestion) {
		t.Errorf("with --yes: broken %v with error %v\n%s", broken, err, out)
	}
}

// pods returns the pods of the namespace by name.
func (b *bench) pods() map[string]corev1.Pod {
	b.Helper()
	list, all := &corev1.PodList{}, map[string]corev1.Pod{}
	if err := b.client.List(b.Context(), list, client.InNamespace(b.namespace)); err != nil {
		b.Fatal(err)
	}
	for _, pod := range list.Items {
		all[pod.Name] = pod
	}
	return all
}
