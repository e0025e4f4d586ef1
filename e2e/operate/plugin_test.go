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
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
)

// plugin builds kubectl breakwater once, and returns its path.
var plugin = sync.OnceValues(func() (string, error) {
	path := filepath.Join(operateSuite.Dir(), "kubectl-breakwater")
	return path, binaries.Build(context.Background(), path, binaries.KubectlBreakwater)
})

// kubectlBreakwater returns the plugin command for the namespace of the test. It has a context for each cluster; the current context is the
// core.
func kubectlBreakwater(l *fixture, arguments ...string) *exec.Cmd {
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

// pluginOutput runs the plugin, and returns its stderr and stdout.
func pluginOutput(l *fixture, arguments ...string) string {
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

// missingFragments returns the fragments that a text does not contain. It ignores differences in white space.
func missingFragments(text string, fragments ...string) (lacking []string) {
	flat := strings.Join(strings.Fields(text), " ")
	for _, fragment := range fragments {
		if !strings.Contains(flat, fragment) {
			lacking = append(lacking, fragment)
		}
	}
	return lacking
}

func expectFragments(l *fixture, text string, fragments ...string) {
	l.Helper()
	if lacking := missingFragments(text, fragments...); len(lacking) > 0 {
		l.Errorf("the output lacks %q:\n%s", lacking, text)
	}
}

// startWatch runs kubectl breakwater watch until stop is called.
func startWatch(l *fixture, arguments ...string) (output *subprocess.Output, stop func()) {
	l.Helper()
	command := kubectlBreakwater(l, append([]string{"watch"}, arguments...)...)
	output = &subprocess.Output{}
	command.Stdout = output
	l.Must(command.Start())
	return output, func() {
		l.Helper()
		l.Must(command.Process.Signal(syscall.SIGINT))
		if err := command.Wait(); err != nil {
			l.Errorf("watch ended with %v", err)
		}
	}
}

// removeAllPods deletes all pods concurrently, and returns the number of denials.
func removeAllPods(l *fixture) (denied int) {
	l.Helper()
	var removing sync.WaitGroup
	var mu sync.Mutex
	for _, cell := range l.Cells {
		for _, pod := range l.ExistingPods(cell) {
			removing.Go(func() {
				if l.DeletePod(cell, pod.Name) != nil {
					mu.Lock()
					defer mu.Unlock()
					denied++
				}
			})
		}
	}
	removing.Wait()
	return denied
}

func TestOnCallCommandsShowStorm(t *testing.T) {
	claim(t, "status shows denials, reservations, a stopped aggregator and the numbers of decisions", func(l *fixture) {
		core, cell := l.Federation().Cores()[0].Name(), l.Cells[0].Name
		l.CreateProtector(8)
		l.CreateBarePods(l.Application(12))
		expectFragments(l, pluginOutput(l, "status"), "web 8 12 0 4 ok")
		l.WaitForReadyCells(func() error { return nil })
		expectFragments(l, pluginOutput(l, "cells"), cell+" ok yes yes", "ago")
		lines, stop := startWatch(l, "web")
		l.Eventually(func() string {
			return strings.Join(missingFragments(lines.String(), "available 12 floor 8 under way 0 budget 4 allowed 4 denied 0 ok"), ", ")
		})
		for _, c := range l.Cells { // keeps the admitted removals under way
			l.Must(l.Breakwater.Freeze(install.AggregatorName(core, c.Name)))
		}
		denied := removeAllPods(l)
		if denied != 8 {
			l.Errorf("%d of 12 removals were denied, want 8", denied)
		}
		expectFragments(l, pluginOutput(l, "status"), "web 8 12 4 0 at floor")
		text := pluginOutput(l, "status", "web")
		expectFragments(l, text, "Denies the next removal: NoBudget.", "12 are available, 4 are being removed, and the floor is 8.", "floor 8 minAvailable 8",
			"budget 0 12 available - 4 under way - 8 floor", "Delete admitted", "who asked not recorded")
		l.Eventually(func() string {
			return strings.Join(missingFragments(pluginOutput(l, "denials", "web"), "NoBudget web", "web-", "admin"), ", ")
		})
		var list struct {
			Protectors []struct {
				Available, UnderWay, Budget, Allowed int
				Denies                               string `json:"refuses"`
			}
		}
		l.Must(json.Unmarshal([]byte(pluginOutput(l, "status", "web", "-o", "json")), &list))
		if p := list.Protectors[0]; p.Available != 12 || p.UnderWay != 4 || p.Budget != 0 || p.Allowed != 0 || p.Denies != "NoBudget" {
			l.Errorf("%+v", p)
		}
		for _, c := range l.Cells {
			l.Must(l.Breakwater.Thaw(install.AggregatorName(core, c.Name)))
		}
		l.Eventually(func() string {
			return strings.Join(missingFragments(pluginOutput(l, "status"), "web 8 8 0 0 at floor"), ", ")
		})
		l.Eventually(func() string {
			return strings.Join(missingFragments(lines.String(), "available 8 floor 8 under way 0 budget 0"), ", ")
		})
		stop()
		expectFragments(l, lines.String(), "under way 4 budget 0 allowed 0")
		if strings.Contains(lines.String(), "below floor") {
			l.Errorf("the floor was broken:\n%s", lines)
		}

		stopped := install.AggregatorName(core, cell)
		l.Must(l.Breakwater.Terminate(stopped))
		l.Eventually(func() string {
			return strings.Join(missingFragments(pluginOutput(l, "cells"), cell+" notCounted", "Ready False AggregatorStopped"), ", ")
		})
		l.Must(l.Breakwater.Restart(l.Context(), stopped))
		l.Eventually(func() string { return strings.Join(missingFragments(pluginOutput(l, "cells"), cell+" ok"), ", ") })
	})
}

func TestDenialsForUnknownCellAreShown(t *testing.T) {
	claim(t, "a removal denied because of an unknown cell is shown with its user and without a protector", func(l *fixture) {
		l.CreateProtector(0)
		l.CreateBarePods(l.Application(2))
		cell, unknown := l.Cells[0], "no-"+l.Namespace
		worker, ok := l.Federation().Cluster(cell.Name)
		if !ok {
			l.Fatalf("no cluster %q", cell.Name)
		}
		c, err := install.Client(worker)
		l.Must(err)
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		l.Must(c.Get(l.Context(), client.ObjectKey{Name: "breakwater-cell-" + cell.Name}, configuration))
		address, _, _ := strings.Cut(*configuration.Webhooks[0].ClientConfig.URL, "/cells/")
		raw, err := exec.CommandContext(l.Context(), l.Program(), "webhook-config", "--cell="+unknown, "--name="+unknown, "--namespaces="+l.Namespace,
			"--url="+address, "--ca-bundle="+filepath.Join(l.Dir(), "webhook", "ca.crt")).Output()
		l.Must(err)
		wrong := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		l.Must(yaml.Unmarshal(raw, wrong))
		l.Must(c.Create(l.Context(), wrong))
		l.Cleanup(func() { _ = c.Delete(context.Background(), wrong) })
		pod := l.ExistingPods(cell)[0].Name
		l.Eventually(func() string {
			err := cell.Client.CoreV1().Pods(l.Namespace).Delete(l.Context(), pod, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil || !strings.Contains(err.Error(), unknown) {
				return fmt.Sprintf("the webhook is not called for %s: %v", unknown, err)
			}
			return ""
		})
		if text := pluginOutput(l, "denials"); strings.Contains(text, "UnknownCell") {
			l.Errorf("a dry run is shown:\n%s", text)
		}
		if l.DeletePod(cell, pod) == nil {
			l.Fatal("the pod was removed")
		}
		l.Eventually(func() string {
			return strings.Join(missingFragments(pluginOutput(l, "denials"), "UnknownCell - "+unknown+" "+pod+" admin"), ", ")
		})
	})
}

func TestWorkerContextFindsCore(t *testing.T) {
	claim(t, "the error in the context of a worker that names no core, and whose Cell names no cluster, names the flag to use", func(l *fixture) {
		worker := l.Federation().Workers()[0].Name()
		command := kubectlBreakwater(l, "status", "--context", worker)
		out, err := command.CombinedOutput()
		if err == nil {
			l.Fatalf("it treats a worker as the core:\n%s", out)
		}
		core := l.Federation().Cores()[0].Name()
		expectFragments(l, string(out), fmt.Sprintf("context %q is not a core cluster of Breakwater", worker), "--core-context CONTEXT", core)
		expectFragments(l, pluginOutput(l, "status", "--context", worker, "--core-context", core), "No PodProtectors in namespace "+l.Namespace)
	})
}
