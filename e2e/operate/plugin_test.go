package operate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/harness/binaries"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

// plugin is kubectl breakwater, built once.
var plugin = sync.OnceValues(func() (string, error) {
	path := filepath.Join(operate.Dir(), "kubectl-breakwater")
	return path, binaries.Build(context.Background(), path, binaries.KubectlBreakwater)
})

// kubectlBreakwater is the command with a context for each cluster, of which that of the core is the current one, in the lab's namespace.
func kubectlBreakwater(l *lab, arguments ...string) *exec.Cmd {
	l.Helper()
	path, err := plugin()
	l.Must(err)
	var files []string
	for _, cluster := range append(l.Federation().Cores(), l.Federation().Workers()...) {
		files = append(files, cluster.Kubeconfig())
	}
	command := exec.CommandContext(l.Context(), path, append(arguments, "-n", l.Namespace)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+strings.Join(files, string(filepath.ListSeparator)), "BREAKWATER_CORE_CONTEXT=", "BREAKWATER_CORE_KUBECONFIG=")
	return command
}

// says runs it, and returns what it says.
func says(l *lab, arguments ...string) string {
	l.Helper()
	command := kubectlBreakwater(l, arguments...)
	var out, told bytes.Buffer
	command.Stdout, command.Stderr = &out, &told
	if err := command.Run(); err != nil {
		l.Fatalf("kubectl breakwater %v: %v\n%s%s", arguments, err, &out, &told)
	}
	l.Logf("$ kubectl breakwater %s\n%s%s", strings.Join(arguments, " "), &told, &out)
	return told.String() + out.String()
}

// missing are those words that a text does not say, however it is spaced.
func missing(text string, words ...string) (missed []string) {
	flat := strings.Join(strings.Fields(text), " ")
	for _, word := range words {
		if !strings.Contains(flat, word) {
			missed = append(missed, word)
		}
	}
	return missed
}

func wantSaid(l *lab, text string, words ...string) {
	l.Helper()
	if missed := missing(text, words...); len(missed) > 0 {
		l.Errorf("%q are not said:\n%s", missed, text)
	}
}

// watched is what a watch has said so far.
type watched struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.String()
}

// watch runs it until stop.
func watch(l *lab, arguments ...string) (said *watched, stop func()) {
	l.Helper()
	command := kubectlBreakwater(l, append([]string{"watch"}, arguments...)...)
	said = &watched{}
	command.Stdout = said
	l.Must(command.Start())
	return said, func() {
		l.Helper()
		l.Must(command.Process.Signal(syscall.SIGINT))
		if err := command.Wait(); err != nil {
			l.Errorf("watch ended with %v", err)
		}
	}
}

// removeAll removes all pods at once, of which as many are refused as the floor keeps.
func removeAll(l *lab) (refused int) {
	l.Helper()
	var removing sync.WaitGroup
	var mu sync.Mutex
	for _, cell := range l.Cells {
		for _, pod := range l.Pods(cell) {
			removing.Go(func() {
				if l.Remove(cell, pod.Name) != nil {
					mu.Lock()
					defer mu.Unlock()
					refused++
				}
			})
		}
	}
	removing.Wait()
	return refused
}

func TestWhoIsPagedSeesWhatTheStormDid(t *testing.T) {
	claim(t, "refusals, reservations, a stopped aggregator and the numbers of decisions are shown as they are", func(l *lab) {
		core, cell := l.Federation().Cores()[0].Name(), l.Cells[0].Name
		l.Protect(8)
		l.DeployBare(l.App(12))
		wantSaid(l, says(l, "status"), "web 8 12 0 4 ok")
		l.AwaitCells(func() error { return nil })
		wantSaid(l, says(l, "cells"), cell+" ok yes yes", "ago")
		lines, stop := watch(l, "web")
		l.Eventually(func() string {
			return strings.Join(missing(lines.String(), "available 12 floor 8 under way 0 budget 4 allowed 4 refused 0 ok"), ", ")
		})
		for _, c := range l.Cells { // so that what is admitted stays under way
			l.Must(l.Breakwater.Freeze(install.AggregatorName(core, c.Name)))
		}
		refused := removeAll(l)
		if refused != 8 {
			l.Errorf("%d of 12 removals were refused, want 8", refused)
		}
		wantSaid(l, says(l, "status"), "web 8 12 4 0 at floor")
		text := says(l, "status", "web")
		wantSaid(l, text, "Refuses the next removal: NoBudget.", "12 are available, 4 are being removed, and the floor is 8.", "floor 8 minAvailable 8",
			"budget 0 12 available - 4 under way - 8 floor", "Delete admitted", "who asked is not recorded")
		l.Eventually(func() string {
			return strings.Join(missing(says(l, "denials", "web"), "NoBudget web", "web-", "admin"), ", ")
		})
		var list struct {
			Protectors []struct {
				Available, UnderWay, Budget, Allowed int
				Refuses                              string
			}
		}
		l.Must(json.Unmarshal([]byte(says(l, "status", "web", "-o", "json")), &list))
		if p := list.Protectors[0]; p.Available != 12 || p.UnderWay != 4 || p.Budget != 0 || p.Allowed != 0 || p.Refuses != "NoBudget" {
			l.Errorf("%+v", p)
		}
		for _, c := range l.Cells {
			l.Must(l.Breakwater.Thaw(install.AggregatorName(core, c.Name)))
		}
		l.Eventually(func() string { return strings.Join(missing(says(l, "status"), "web 8 8 0 0 at floor"), ", ") })
		l.Eventually(func() string {
			return strings.Join(missing(lines.String(), "available 8 floor 8 under way 0 budget 0"), ", ")
		})
		stop()
		wantSaid(l, lines.String(), "under way 4 budget 0 allowed 0")
		if strings.Contains(lines.String(), "below floor") {
			l.Errorf("the floor was broken:\n%s", lines)
		}

		stopped := install.AggregatorName(core, cell)
		l.Must(l.Breakwater.Terminate(stopped))
		l.Eventually(func() string {
			return strings.Join(missing(says(l, "cells"), cell+" notCounted", "Ready False AggregatorStopped"), ", ")
		})
		l.Must(l.Breakwater.Restart(l.Context(), stopped))
		l.Eventually(func() string { return strings.Join(missing(says(l, "cells"), cell+" ok"), ", ") })
	})
}

func TestRefusalsOfACellThatIsNoneAreShown(t *testing.T) {
	claim(t, "a removal that is refused since the apiserver asks about a cell that nobody knows is shown with who asked, and no protector", func(l *lab) {
		l.Protect(0)
		l.DeployBare(l.App(2))
		cell, unknown := l.Cells[0], "no-"+l.Namespace
		worker, ok := l.Federation().Cluster(cell.Name)
		if !ok {
			l.Fatalf("no cluster %q", cell.Name)
		}
		c, err := install.Client(worker)
		l.Must(err)
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		l.Must(c.Get(l.Context(), client.ObjectKey{Name: "breakwater"}, configuration))
		address, _, _ := strings.Cut(*configuration.Webhooks[0].ClientConfig.URL, "/cells/")
		raw, err := exec.CommandContext(l.Context(), l.Program(), "webhook-config", "--cell="+unknown, "--name="+unknown, "--namespaces="+l.Namespace,
			"--url="+address, "--ca-bundle="+filepath.Join(l.Dir(), "webhook", "ca.crt")).Output()
		l.Must(err)
		wrong := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		l.Must(yaml.Unmarshal(raw, wrong))
		l.Must(c.Create(l.Context(), wrong))
		l.Cleanup(func() { _ = c.Delete(context.Background(), wrong) })
		pod := l.Pods(cell)[0].Name
		l.Eventually(func() string {
			err := cell.Client.CoreV1().Pods(l.Namespace).Delete(l.Context(), pod, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil || !strings.Contains(err.Error(), unknown) {
				return fmt.Sprintf("it is not asked about %s: %v", unknown, err)
			}
			return ""
		})
		if text := says(l, "denials"); strings.Contains(text, "UnknownCell") {
			l.Errorf("a dry run is shown:\n%s", text)
		}
		if l.Remove(cell, pod) == nil {
			l.Fatal("the pod was removed")
		}
		l.Eventually(func() string {
			return strings.Join(missing(says(l, "denials"), "UnknownCell - "+unknown+" "+pod+" admin"), ", ")
		})
	})
}

func TestAWorkersContextIsToldWhereTheCoreIs(t *testing.T) {
	claim(t, "whoever stands in a worker is told what to say, and by that finds the core", func(l *lab) {
		worker := l.Federation().Workers()[0].Name()
		command := kubectlBreakwater(l, "status", "--context", worker)
		out, err := command.CombinedOutput()
		if err == nil {
			l.Fatalf("it takes a worker for the core:\n%s", out)
		}
		core := l.Federation().Cores()[0].Name()
		wantSaid(l, string(out), fmt.Sprintf("context %q is no core cluster of Breakwater", worker), "--core-context CONTEXT", core)
		wantSaid(l, says(l, "status", "--context", worker, "--core-context", core), "No PodProtectors in namespace "+l.Namespace)
	})
}
