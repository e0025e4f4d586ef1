package operate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/measure"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

// night is the state of one fault of TestNight. The removals are those of cell, whose cluster is worker.
type night struct {
	*fixture
	cell         storm.Cell
	worker, core federation.Cluster
}

// onceAtEnd returns a function that runs restore once. If the test ends before, restore runs then.
func (n *night) onceAtEnd(restore func()) func() {
	once := sync.OnceFunc(restore)
	n.Cleanup(once)
	return once
}

// endContext returns a context for restores, which also run when the context of the test has ended.
func (n *night) endContext() context.Context { return context.WithoutCancel(n.Context()) }

// pod returns the name of a pod of the cell.
func (n *night) pod() string {
	n.Helper()
	return n.ExistingPods(n.cell)[0].Name
}

// kubectl runs kubectl in a cluster, and returns its output and exit code.
func (n *night) kubectl(cluster federation.Cluster, arguments ...string) (output string, code int) {
	n.Helper()
	program, err := local.BuiltProgram("kubectl")
	n.Must(err)
	command := exec.CommandContext(n.Context(), program, append(arguments, "--kubeconfig", cluster.Kubeconfig(), "-n", n.Namespace)...)
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		n.Fatal(err)
	}
	return string(out), command.ProcessState.ExitCode()
}

// kubectlDelete deletes a pod of the cell.
func (n *night) kubectlDelete(arguments ...string) (output string, code int) {
	n.Helper()
	output, code = n.kubectl(n.worker, append([]string{"delete", "pod", n.pod(), "--wait=false"}, arguments...)...)
	n.Logf("$ kubectl delete pod %s\n%s(exit code %d)", strings.Join(arguments, " "), output, code)
	return output, code
}

// deleteUntilDenied deletes a pod until the refusal has a reason, and returns the number of refusals. Each of them must have code 429.
func (n *night) deleteUntilDenied(reason string) (denied int) {
	n.Helper()
	n.Eventually(func() string {
		output, code := n.kubectlDelete()
		expectOutput(n.fixture, output, code, 1, "Error from server (TooManyRequests)")
		if n.Failed() {
			n.FailNow()
		}
		if denied++; !strings.Contains(output, reason) {
			return output
		}
		return ""
	})
	return denied
}

// guardedColumn returns what kubectl get cells shows of the cell in its column Guarded.
func (n *night) guardedColumn() string {
	n.Helper()
	output, code := n.kubectl(n.core, "get", "cells", n.cell.Name)
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if code != 0 || len(lines) != 2 {
		n.Fatalf("kubectl get cells: exit code %d\n%s", code, output)
	}
	values := strings.Fields(lines[1])
	for i, title := range strings.Fields(lines[0]) {
		if title == "GUARDED" && i < len(values) {
			return values[i]
		}
	}
	n.Fatalf("kubectl get cells shows no column GUARDED:\n%s", output)
	return ""
}

// setFloor sets the floor of the protector, and returns the previous one.
func (n *night) setFloor(floor *intstr.IntOrString) (previous *intstr.IntOrString) {
	n.Helper()
	protector := n.GetProtector()
	before := protector.DeepCopy()
	protector.Spec.MinAvailable = floor
	n.Must(n.Core.Patch(n.endContext(), protector, client.MergeFrom(before)))
	return before.Spec.MinAvailable
}

// problem is a finding of doctor.
type problem struct {
	where, check, runbook string
	// found and cause are fragments of the finding.
	found, cause string
}

// expectProblem waits until doctor has a finding, and exits with 1.
func (n *night) expectProblem(want problem) {
	n.Helper()
	n.Eventually(func() string {
		found, code := n.doctor()
		for _, f := range found {
			isWanted := strings.HasPrefix(f.Where, want.where) && f.Check == want.check && f.Verdict == findings.Problem && f.Do != "" &&
				strings.Contains(f.Found, want.found) && strings.Contains(f.Found, want.cause)
			if isWanted && code == 1 && (want.runbook == "" || f.Runbook == want.runbook) {
				n.Logf("doctor: %+v", f)
				return ""
			}
		}
		return fmt.Sprintf("doctor exits with %d and does not report %+v: %+v", code, want, found)
	})
}

// expectNoFindings waits until doctor has no problem with the clusters and the webhooks.
func (n *night) expectNoFindings() {
	n.Helper()
	n.Eventually(func() string {
		found, _ := n.doctor()
		for _, f := range found {
			if f.Verdict == findings.Problem || f.Verdict == findings.Unknown {
				return fmt.Sprintf("doctor reports %+v", f)
			}
		}
		return ""
	})
}

// doctor returns the findings and the exit code of the checks that the faults of the night concern.
func (n *night) doctor() (found []findings.Finding, code int) {
	n.Helper()
	out, code := runPlugin(n.fixture, n.cell, "doctor", "--check", "apiserver,cells,certificate,guarding,tokens,webhook", "-o", "json")
	output := struct{ Findings []findings.Finding }{}
	if err := json.Unmarshal([]byte(out), &output); err != nil {
		n.Fatalf("doctor: exit code %d, %v\n%s", code, err, out)
	}
	return output.Findings, code
}

// removalCodes returns how many deletions of pods the API server of the worker has answered, by code.
func (n *night) removalCodes() map[string]int {
	n.Helper()
	clientset, err := kubernetes.NewForConfig(n.worker.RESTConfig())
	n.Must(err)
	raw, err := clientset.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(n.Context())
	n.Must(err)
	codes := map[string]int{}
	deletions := regexp.MustCompile(`^code="(\d+)",.*,resource="pods",.*subresource="",verb="DELETE"`)
	for labels, count := range measure.Series(string(raw), "apiserver_request_total") {
		if code := deletions.FindStringSubmatch(labels); code != nil {
			codes[code[1]] += int(count)
		}
	}
	return codes
}

// expectCodes checks how many deletions of pods the API server of the worker has refused since before, by code. Admitted ones include those of kwok.
func (n *night) expectCodes(before, want map[string]int) {
	n.Helper()
	got := map[string]int{}
	for code, count := range n.removalCodes() {
		if count > before[code] && code >= "429" {
			got[code] = count - before[code]
		}
	}
	if !maps.Equal(got, want) {
		n.Errorf("the API server refused deletions with %v, want %v", got, want)
	}
}

// reviews returns how many removals of the cell the webhooks have reviewed.
func (n *night) reviews() float64 {
	return n.webhookMetric("breakwater_webhook_reviews_total", `cell="`+n.cell.Name+`"`)
}

// webhookMetric returns the sum of a metric over all replicas of the webhook, for series whose labels contain the text.
func (n *night) webhookMetric(name, labels string) (sum float64) {
	n.Helper()
	for component, address := range n.Breakwater.MetricsAddresses() {
		if !strings.HasPrefix(component, "webhook-") {
			continue
		}
		request, err := http.NewRequestWithContext(n.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
		n.Must(err)
		response, err := http.DefaultClient.Do(request)
		n.Must(err)
		raw, err := io.ReadAll(response.Body)
		n.Must(errors.Join(err, response.Body.Close()))
		if !strings.Contains(string(raw), "\n# TYPE "+name+" ") {
			n.Fatalf("no metric %s is served", name)
		}
		sum += measure.Sum(string(raw), name, labels)
	}
	return sum
}

// replaceFile replaces a file at once, as in a mounted Secret.
func replaceFile(path string, content []byte) error {
	next := filepath.Join(filepath.Dir(path), "next-"+filepath.Base(path))
	return errors.Join(os.WriteFile(next, content, 0o600), os.Rename(next, path))
}
