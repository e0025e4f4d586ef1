package webhook_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// unreachable is what a refusal says when the core of a fixture is known not to answer.
const unreachable = `core cluster "core" has been unreachable since `

// Clients retry after 429. After the InternalError of an API server that got no answer in time, kubectl drain gives a pod up.
func TestDenialsOfASilentCoreArriveBeforeEveryTimeout(t *testing.T) {
	for _, timeout := range []int32{1, 2, 4, 10} {
		t.Run(fmt.Sprintf("timeout %d s", timeout), func(t *testing.T) {
			l := newFixture(t)
			l.protect("web", 5, 100)
			pods := l.pods(16)
			core := l.proxied()
			l.serve(core.asCore).guard(withTimeout(timeout))
			core.stall()
			for _, remove := range []removalMethod{deletion, eviction} {
				for _, err := range l.removeAll(remove, pods) {
					wantDenied(t, err, "could not be reserved with PodProtector "+l.namespace+`/web in core cluster "core" (no answer in time)`)
				}
			}
		})
	}
}

// A review that was read too late reserves nothing: its API server has given up, or is about to.
func TestReviewThatArrivesTooLateReservesNothing(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 5, 7)
	guarded, other := l.pod("web-0"), l.pod("web-1", unprotected)
	r := l.serve()
	late := "/cells/" + l.cell + "/validate?timeout=1ns"
	if response := r.reviewAt(late, deleteReview(guarded)); response.Allowed || response.Result.Code != 429 ||
		!strings.Contains(response.Result.Message, "(the review arrived too late)") {
		t.Errorf("late review of a protected pod: %+v, want a refusal with 429", response.Result)
	}
	l.wantReserved("web", 0)
	if response := r.reviewAt(late, deleteReview(other)); !response.Allowed {
		t.Errorf("late review of a pod without protectors: %+v, want it admitted", response.Result)
	}
}

// kubectl drain and kubectl delete meet a core that is frozen from one moment to the next, and that returns later.
func TestDrainContinuesByItselfAfterAnOutageOfTheCore(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 2, 10)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
	l.create(node)
	l.Cleanup(func() { _ = l.client.Delete(context.Background(), node) })
	drained := l.pods(4, func(p *corev1.Pod) { p.Spec.NodeName = node.Name })
	other := l.pod("other-0")
	core := l.proxied()
	l.serve(core.asCore, func(s *replicaOptions) { s.probeInterval = 100 * time.Millisecond }).guard(withTimeout(10))
	core.stall()
	drain := l.startKubectl("drain", node.Name, "--force", "--grace-period=0", "--timeout=10m")
	for range 3 {
		deletion := l.startKubectl("delete", "pod", other.Name, "--namespace", l.namespace)
		if code := deletion.wait(); code != 1 || !strings.Contains(deletion.output(), "Error from server (TooManyRequests)") ||
			!strings.Contains(deletion.output(), unreachable) {
			t.Errorf("kubectl delete ended with code %d, want 1 for TooManyRequests since %q:\n%s", code, unreachable, deletion.output())
		}
	}
	const retried = "will retry after 5s"
	l.eventually(func() string {
		for _, pod := range drained {
			if strings.Count(drain.output(), fmt.Sprintf("pods/%q -n %q (%s)", pod.Name, l.namespace, retried)) < 2 {
				return fmt.Sprintf("pod %s was not refused twice yet:\n%s", pod.Name, drain.output())
			}
		}
		return ""
	})
	core.heal()
	if code := drain.wait(); code != 0 {
		t.Errorf("kubectl drain ended with code %d, want 0:\n%s", code, drain.output())
	}
	for line := range strings.Lines(drain.output()) {
		if strings.Contains(line, retried) && (!strings.Contains(line, unreachable) || !strings.Contains(line, "PodProtector "+l.namespace+"/web")) {
			t.Errorf("kubectl drain was refused because of %q, want %q and the protector", line, unreachable)
		}
	}
	for _, pod := range drained {
		if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{}); !apierrors.IsNotFound(err) {
			t.Errorf("get of pod %s: %v, want it drained", pod.Name, err)
		}
	}
	l.wantReserved("web", len(drained))
	codes := l.removalCodes()
	if codes[429] < 2*len(drained)+3 || codes[201] != len(drained) || codes[200]+codes[201]+codes[429] != codes[anyCode] {
		t.Errorf("the API server answered %v, want %d evictions with 201 and all others with 429", codes, len(drained))
	}
}

// anyCode counts the answers with any code.
const anyCode = 0

// removalCodes counts the codes with which the API server answered the removals of the fixture's pods that had app=web, according to its audit log.
func (l *fixture) removalCodes() map[int32]int {
	l.Helper()
	raw, err := os.ReadFile(testplane.AuditLog(l))
	if err != nil {
		l.Fatal(err)
	}
	codes := map[int32]int{}
	for line := range bytes.Lines(raw) {
		event := &auditv1.Event{}
		if err := removal.DecodeJSON(line, event); err != nil {
			l.Fatal(err)
		}
		if event.ObjectRef == nil || event.ObjectRef.Namespace != l.namespace || strings.HasPrefix(event.ObjectRef.Name, "probe-") {
			continue
		}
		codes[event.ResponseStatus.Code]++
		codes[anyCode]++
	}
	return codes
}

// kubectl is a running kubectl.
type kubectl struct {
	*exec.Cmd
	lines subprocess.Output
}

// startKubectl starts kubectl as an administrator of the fixture's cluster. It ends with the test.
func (l *fixture) startKubectl(arguments ...string) *kubectl {
	l.Helper()
	program, ok := local.FindProgram(filepath.SplitList(os.Getenv(local.BinariesVariable)), "kubectl")
	if !ok {
		l.Fatalf("no directory of %s has kubectl", local.BinariesVariable)
	}
	k := &kubectl{Cmd: exec.CommandContext(l.Context(), program, append(arguments, "--kubeconfig", testplane.Kubeconfig(l))...)}
	k.Stdout, k.Stderr = &k.lines, &k.lines
	if err := k.Start(); err != nil {
		l.Fatal(err)
	}
	return k
}

// output returns what kubectl has printed so far.
func (k *kubectl) output() string { return k.lines.String() }

// wait waits until kubectl ends, and returns its exit code.
func (k *kubectl) wait() int {
	_ = k.Wait()
	return k.ProcessState.ExitCode()
}
