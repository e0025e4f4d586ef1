package operate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	storms "github.com/breakwater-k8s/breakwater/e2e/harness/storm"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
	"github.com/breakwater-k8s/breakwater/internal/plugin/drain/waves"
)

// runPlugin runs kubectl breakwater against a worker cluster and the namespace of the test, and returns its output and exit code. The output
// includes stderr unless the arguments ask for JSON.
func runPlugin(l *fixture, in storms.Cell, arguments ...string) (output string, code int) {
	l.Helper()
	program, err := plugin()
	l.Must(err)
	worker, ok := l.Federation().Cluster(in.Name)
	if !ok {
		l.Fatalf("no cluster %q", in.Name)
	}
	core := l.Federation().Cores()[0]
	command := exec.CommandContext(l.Context(), program, append(arguments, "-n", l.Namespace, "--core", core.Name()+"="+core.Kubeconfig())...)
	command.Env = append(os.Environ(), "KUBECONFIG="+worker.Kubeconfig(), "HOME="+l.TempDir(), "TZ=UTC")
	var out, warnings bytes.Buffer
	command.Stdout, command.Stderr = &out, &warnings
	var exit *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &exit) {
		l.Fatal(err)
	}
	if text := out.String() + warnings.String(); !strings.Contains(strings.Join(arguments, " "), "-o json") {
		l.Logf("$ kubectl breakwater %s\n%s", strings.Join(arguments, " "), text)
		return text, command.ProcessState.ExitCode()
	}
	return out.String(), command.ProcessState.ExitCode()
}

func expectOutput(l *fixture, output string, code, want int, fragments ...string) {
	l.Helper()
	if code != want {
		l.Errorf("exit code %d, want %d:\n%s", code, want, output)
	}
	for _, fragment := range fragments {
		if !strings.Contains(output, fragment) {
			l.Errorf("the output does not contain %q:\n%s", fragment, output)
		}
	}
}

func TestExplain(t *testing.T) {
	claim(t, "explain agrees with the API server before and after a reservation, and names what would admit the removal", func(l *fixture) {
		l.CreateProtector(4)
		l.CreateBarePods(l.Application(5))
		first, second := l.Cells[0], l.Cells[1]
		pod := l.ExistingPods(first)[0].Name
		for _, operation := range []string{"delete", "evict"} {
			output, code := runPlugin(l, first, "explain", "pod/"+pod, "--operation", operation, "--ask")
			expectOutput(l, output, code, 0, "allowed\n", "Answer of the API server: allowed, as explained", "failurePolicy Fail", "floor 4: minAvailable 4")
		}
		l.Must(l.DeletePod(second, l.ExistingPods(second)[0].Name))
		l.Eventually(func() string { // the webhook's watch may be behind by a moment
			output, code := runPlugin(l, first, "explain", "pod/"+pod, "--ask")
			if code != 2 || !strings.Contains(output, "denied (NoBudget)") || !strings.Contains(output, "as explained") {
				return fmt.Sprintf("exit code %d: %s", code, output)
			}
			return ""
		})
		output, code := runPlugin(l, first, "explain", "pod/"+pod, "-o", "json")
		e := explain.Explanation{}
		l.Must(json.Unmarshal([]byte(output), &e))
		if code != 2 || e.Allowed || e.Asked != explain.AskedYes || len(e.Protectors) != 1 || e.Cell != first.Name {
			l.Fatalf("exit code %d: %+v", code, e)
		}
		if p := e.Protectors[0]; p.Left != 0 || *p.MoreAvailable != 1 || *p.FloorThatWouldDo != 3 || !p.Charged || len(p.Cells) != 2 {
			l.Errorf("protector %+v", p)
		}
		// The floor that explain reports as sufficient admits the removal.
		protector := l.GetProtector()
		before := protector.DeepCopy() // aggregators update its status at the same time
		protector.Spec.MinAvailable = v1alpha1.Pods(int32(*e.Protectors[0].FloorThatWouldDo))
		l.Must(l.Core.Patch(l.Context(), protector, client.MergeFrom(before)))
		l.Eventually(func() string { return e2e.ErrorText(l.DeletePod(first, pod)) })
	})
}

// createResizablePod creates a pod whose container restarts when its CPU request is resized.
func createResizablePod(l *fixture, cell storms.Cell, name string) {
	l.Helper()
	noToken, none := false, int64(0)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}}}
	pod.Spec.AutomountServiceAccountToken, pod.Spec.TerminationGracePeriodSeconds = &noToken, &none
	pod.Spec.Containers = []corev1.Container{{
		Name: "app", Image: storms.Image,
		Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("1Mi")}},
		ResizePolicy: []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}},
	}}
	_, err := cell.Client.CoreV1().Pods(l.Namespace).Create(l.Context(), pod, metav1.CreateOptions{})
	l.Must(err)
}

// supportResize reports the resources of the containers in the status of a pod, as a kubelet does. From that the API server concludes that the
// node can resize the pod.
func supportResize(l *fixture, cell storms.Cell, name string) {
	l.Helper()
	l.Eventually(func() string {
		pod, err := cell.Client.CoreV1().Pods(l.Namespace).Get(l.Context(), name, metav1.GetOptions{})
		l.Must(err)
		for i := range pod.Status.ContainerStatuses {
			pod.Status.ContainerStatuses[i].Resources = &pod.Spec.Containers[i].Resources
		}
		_, err = cell.Client.CoreV1().Pods(l.Namespace).UpdateStatus(l.Context(), pod, metav1.UpdateOptions{})
		return e2e.ErrorText(err)
	})
}

func TestExplainOfChanges(t *testing.T) {
	claim(t, "explain agrees with the API server about updates and resizes, with and without their operations in the protector", func(l *fixture) {
		l.CreateProtector(2, func(spec *v1alpha1.PodProtectorSpec) {
			spec.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict, v1alpha1.OperationUpdate, v1alpha1.OperationResize}
		})
		cell := l.Cells[0]
		for _, name := range []string{"one", "two", "three"} {
			createResizablePod(l, cell, name)
		}
		l.WaitForSummary(e2e.AllAvailable(3))
		supportResize(l, cell, "one")
		changes := []string{"update", "resize"}
		for _, operation := range changes {
			l.Eventually(func() string { // the webhook's watch may be behind by a moment
				output, code := runPlugin(l, cell, "explain", "pod/one", "--operation", operation, "--ask")
				if code != 0 || !strings.Contains(output, "allowed") || !strings.Contains(output, "as explained") {
					return fmt.Sprintf("exit code %d: %s", code, output)
				}
				return ""
			})
		}
		l.Must(l.DeletePod(cell, "three"))
		for _, operation := range changes {
			l.Eventually(func() string {
				output, code := runPlugin(l, cell, "explain", "pod/one", "--operation", operation, "--ask")
				if code != 2 || !strings.Contains(output, "denied (NoBudget)") || !strings.Contains(output, "denied with code 429, as explained") ||
					!strings.Contains(output, "refuses to "+operation+" pod") {
					return fmt.Sprintf("exit code %d: %s", code, output)
				}
				return ""
			})
		}
		pod, err := cell.Client.CoreV1().Pods(l.Namespace).Get(l.Context(), "one", metav1.GetOptions{})
		l.Must(err)
		if of := pod.Spec.Containers[0]; of.Image != storms.Image || of.Resources.Requests.Cpu().MilliValue() != 10 {
			l.Errorf("a dry run has changed the pod: %+v", of)
		}
		protector := l.GetProtector()
		protector.Spec.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationUpdate}
		l.Must(l.Core.Update(l.Context(), protector))
		for _, operation := range changes {
			want := map[string]int{"update": 2, "resize": 0}[operation]
			l.Eventually(func() string {
				output, code := runPlugin(l, cell, "explain", "pod/one", "--operation", operation, "--ask")
				if code != want || !strings.Contains(output, "as explained") {
					return fmt.Sprintf("exit code %d, want %d: %s", code, want, output)
				}
				return ""
			})
		}
		bare := l.Application(1)
		bare.Instance = "plain"
		l.Must(bare.DeployBare(l.Context(), l.Cells[:1]))
		for _, pod := range l.ExistingPods(cell) {
			if len(pod.Spec.Containers[0].ResizePolicy) == 0 {
				output, code := runPlugin(l, cell, "explain", "pod/"+pod.Name, "--operation", "resize", "--ask")
				expectOutput(l, output, code, 1, "no resize restarts a container of pod")
				return
			}
		}
		l.Error("no pod lacks a resizePolicy")
	})
}

func TestExplainReportsMissingWebhook(t *testing.T) {
	claim(t, "explain reports that a namespace is exempt, and what Breakwater would answer", func(l *fixture) {
		l.CreateProtector(2)
		l.CreateBarePods(l.Application(2))
		cell := l.Cells[0]
		namespaces := cell.Client.CoreV1().Namespaces()
		namespace, err := namespaces.Get(l.Context(), l.Namespace, metav1.GetOptions{})
		l.Must(err)
		metav1.SetMetaDataLabel(&namespace.ObjectMeta, v1alpha1.LabelExempt, "true")
		_, err = namespaces.Update(l.Context(), namespace, metav1.UpdateOptions{})
		l.Must(err)
		l.Eventually(func() string {
			output, code := runPlugin(l, cell, "explain", "pod/"+l.ExistingPods(cell)[0].Name, "--ask")
			if code != 0 || !strings.Contains(output, "the API server does not call Breakwater (the webhook would answer NoBudget)") ||
				!strings.Contains(output, "Answer of the API server: allowed, as explained") {
				return fmt.Sprintf("exit code %d: %s", code, output)
			}
			return ""
		})
	})
}

func TestForce(t *testing.T) {
	claim(t, "force shows what it breaks, changes nothing without --yes, and records the reason in an event on the protector", func(l *fixture) {
		l.CreateProtector(2)
		l.CreateBarePods(l.Application(2))
		cell := l.Cells[0]
		pod := "pod/" + l.ExistingPods(cell)[0].Name
		output, code := runPlugin(l, cell, "force", pod, "--delete")
		expectOutput(l, output, code, 1, "--reason is required")
		output, code = runPlugin(l, cell, "force", pod, "--reason", "INC-1", "--delete")
		expectOutput(l, output, code, 1, "denied (NoBudget)", "nothing was changed; set --yes")
		if l.CountExistingPods() != 2 {
			l.Fatalf("%d pods remain", l.CountExistingPods())
		}
		output, code = runPlugin(l, cell, "force", pod, "--reason", "INC-1:\nits node\x1b[31m is on fire", "--yes", "--delete")
		expectOutput(l, output, code, 0, "is annotated", "is deleted")
		l.Eventually(func() string {
			events, err := eventsOf(l)
			if err != nil || !strings.Contains(events, `The reason given is "INC-1: its node[31m is on fire".`) {
				return fmt.Sprintf("events: %v\n%s", err, events)
			}
			return ""
		})
		if l.CountExistingPods() != 1 {
			l.Errorf("%d pods remain", l.CountExistingPods())
		}
	})
}

// TestDrainPlan carries out the plan: it evicts the pods of each wave when the pods of the wave before are replaced. No eviction is denied.
func TestDrainPlan(t *testing.T) {
	claim(t, "a drain plan succeeds as planned", func(l *fixture) {
		l.CreateProtector(4)
		l.Must(l.Application(6).Deploy(l.Context(), l.Cells))
		l.WaitForSummary(e2e.AllAvailable(6))
		cell := l.Cells[0]

		var nodes []string
		in := map[string]corev1.Pod{}
		for _, pod := range l.ExistingPods(cell) {
			in[l.Namespace+"/"+pod.Name] = pod
			nodes = append(nodes, pod.Spec.NodeName)
		}
		runPlugin(l, cell, append([]string{"drain-plan", "--force", "--ignore-daemonsets"}, nodes...)...)
		output, _ := runPlugin(l, cell, append([]string{"drain-plan", "--force", "--ignore-daemonsets", "--parallel", "-o", "json"}, nodes...)...)
		plan := struct {
			Waves   []struct{ Pods []string }
			Blocked []waves.Denial
		}{}
		l.Must(json.Unmarshal([]byte(output), &plan))
		planned := 0
		for _, wave := range plan.Waves {
			for _, name := range wave.Pods {
				if pod, ours := in[name]; ours {
					planned++
					l.Must(l.EvictPod(cell, pod.Name))
				}
			}
			l.WaitForSummary(e2e.AllAvailable(6))
		}
		if planned != 3 || len(plan.Waves) < 2 {
			l.Errorf("the plan has %d pods of this test, want 3 in at least 2 waves: %s", planned, output)
		}
	})
}

// eventsOf returns the events in the namespace of the test in the core cluster.
func eventsOf(l *fixture) (string, error) {
	core := l.Federation().Cores()[0]
	c, err := install.Client(core)
	if err != nil {
		return "", err
	}
	list := &eventsv1.EventList{}
	if err := c.List(l.Context(), list, client.InNamespace(l.Namespace)); err != nil {
		return "", err
	}
	var all strings.Builder
	for _, event := range list.Items {
		all.WriteString(event.Reason + ": " + event.Note + "\n")
	}
	return all.String(), nil
}
