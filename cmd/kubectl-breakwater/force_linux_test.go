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

const forceQuestion = "Type the name of the pod to continue: "

// force forces pod web-0 while no core is reachable, with a file as standard input. It reports whether the pod was annotated.
func (b *explainFixture) force(in *os.File, arguments ...string) (out string, annotated bool, err error) {
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
		typed     string
		annotated bool
	}{
		"the name":                        {"web-0\n", true},
		"the name, with spaces":           {"  web-0 \n", true},
		"yes":                             {"yes\n", false},
		"y":                               {"y\n", false},
		"no":                              {"no\n", false},
		"another pod":                     {"web-1\n", false},
		"the name, and more":              {"web-0 web-1\n", false},
		"nothing":                         {"\n", false},
		"the end of the input":            {"\x04", false},
		"a part of the name, and the end": {"web-\x04\x04", false},
		"the name on the next line":       {"\nweb-0\n", false},
	} {
		t.Run(claim, func(t *testing.T) {
			b := newExplainFixture(t, nil)
			b.pod("web-0", "node", 0, nil)
			userEnd, programEnd := openTerminal(t, 80, 24)
			if _, err := userEnd.WriteString(c.typed); err != nil {
				t.Fatal(err)
			}
			out, annotated, err := b.force(programEnd)
			if !strings.Contains(out, forceQuestion) {
				t.Errorf("no confirmation was requested:\n%s", out)
			}
			if annotated != c.annotated || (err == nil) != c.annotated || err != nil && !strings.HasPrefix(err.Error(), "nothing was changed") {
				t.Errorf("annotated: %v, error %v, want annotated: %v\n%s", annotated, err, c.annotated, out)
			}
		})
	}
}

func TestForceWaitsForConfirmation(t *testing.T) {
	b := newExplainFixture(t, nil)
	b.pod("web-0", "node", 0, nil)
	userEnd, programEnd := openTerminal(t, 80, 24)
	seen := &terminalOutput{}
	go seen.read(userEnd)
	root := rootCommand(genericiooptions.IOStreams{In: programEnd, Out: programEnd, ErrOut: programEnd})
	root.SetArgs([]string{"force", "pod/web-0", "--reason", "fire", "--delete", "--core-context", "nowhere", "--kubeconfig", b.contexts, "-n", b.namespace})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(t.Context()) }()
	testplane.Eventually(t, func() string {
		if !strings.Contains(seen.String(), forceQuestion) {
			return "no confirmation was requested yet:\n" + seen.String()
		}
		return ""
	})
	if pod := b.pods()["web-0"]; pod.DeletionTimestamp != nil || pod.Annotations[v1alpha1.AnnotationForceDelete] != "" {
		t.Fatalf("the pod was changed before the answer: %+v", pod.ObjectMeta)
	}
	if _, err := userEnd.WriteString("web-0\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if pod, exists := b.pods()["web-0"]; exists && pod.DeletionTimestamp == nil {
		t.Errorf("the pod is not deleted: %+v", pod.ObjectMeta)
	}
}

func TestForceWithoutTerminal(t *testing.T) {
	b := newExplainFixture(t, nil)
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
		out, annotated, err := b.force(in)
		if annotated || err == nil || !strings.Contains(err.Error(), "nothing was changed; set --yes") || strings.Contains(out, forceQuestion) {
			t.Errorf("annotated: %v, error %v, want an error and no annotation\n%s", annotated, err, out)
		}
	}
	if out, annotated, err := b.force(none, "--yes"); !annotated || err != nil || strings.Contains(out, forceQuestion) {
		t.Errorf("with --yes: annotated: %v, error %v\n%s", annotated, err, out)
	}
}

// pods returns the pods of the namespace by name.
func (b *explainFixture) pods() map[string]corev1.Pod {
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
