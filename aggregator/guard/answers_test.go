package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

const answersPrefix, webRef = "breakwater-answers-c0-1234-", podhold.Ref("breakwater-protected-c0-1234-7-0/shop/web")

// answersFixture is what answers in memory: a core with one protector, and a cell.
type answersFixture struct {
	*Answers
	*testing.T
	cell      *fake.Clientset
	owned     *someSlots
	protector *v1alpha1.PodProtector
}

func newAnswersFixture(t *testing.T) *answersFixture {
	f := &answersFixture{T: t, cell: fake.NewClientset(), owned: &someSlots{slots: slot.All()}, protector: selecting("web", "web")}
	f.protector.Spec.MinAvailable = v1alpha1.Pods(2)
	f.protector.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: guardCell, Aggregation: v1alpha1.Aggregation{
		CountedSpec: quota.CountedSpec(&f.protector.Spec), CountedReplicas: 2,
	}}}
	f.Answers = &Answers{
		cell: guardCell, published: "breakwater-protected-c0-1234-", prefix: answersPrefix, writable: f.owned.writableSlots,
		nodes: f.cell.CoreV1().Nodes(), pods: f.cell.CoreV1(), configMaps: f.cell.CoreV1().ConfigMaps("breakwater-system"),
		Read: func(context.Context, types.NamespacedName) (*v1alpha1.PodProtector, error) {
			return f.protector.DeepCopy(), nil
		},
		now: time.Now, log: logr.Discard(),
	}
	f.pods("web", 2)
	f.ask("n1", "q1", webRef)
	return f
}

func (f *answersFixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// pods creates pods that are ready.
func (f *answersFixture) pods(app string, number int) {
	f.Helper()
	for i := range number {
		_, err := f.cell.CoreV1().Pods("shop").Create(f.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: app + strconv.Itoa(i), Labels: map[string]string{"app": app}},
			Spec:       corev1.PodSpec{NodeName: "n1"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
			}}},
		}, metav1.CreateOptions{})
		f.must(err)
	}
}

// ask makes the guard of a node ask.
func (f *answersFixture) ask(node, id string, protectors ...podhold.Ref) {
	f.Helper()
	raw, err := json.Marshal(podhold.Status{Question: &podhold.Question{ID: id, Protectors: protectors}})
	f.must(err)
	_, err = f.cell.CoreV1().Nodes().Create(f.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: node, Labels: map[string]string{podhold.LabelAsks: ""}, Annotations: map[string]string{podhold.AnnotationStatus: string(raw)},
	}}, metav1.CreateOptions{})
	f.must(err)
}

// answers answers, and returns all answers as text.
func (f *answersFixture) answers() (all []string) {
	f.Helper()
	f.must(f.answer(f.Context()))
	list, err := f.configMaps.List(f.Context(), metav1.ListOptions{LabelSelector: podhold.LabelAnswers})
	f.must(err)
	for _, m := range list.Items {
		var some []podhold.Answer
		f.must(json.Unmarshal([]byte(m.Data[podhold.AnswersKey]), &some))
		for _, a := range some {
			for _, ref := range a.Satisfied {
				all = append(all, strings.TrimPrefix(m.Name, answersPrefix)+" "+a.Node+" "+a.Question+" "+string(ref))
			}
		}
	}
	slices.Sort(all)
	return all
}

func TestAnswersToGuards(t *testing.T) {
	yes := []string{strconv.Itoa(slot.Of("shop")) + " n1 q1 " + string(webRef)}
	for claim, tc := range map[string]struct {
		change func(*answersFixture)
		want   []string
	}{
		"the floor is satisfied": {func(*answersFixture) {}, yes},
		"the status is older than the loss of a pod": {func(f *answersFixture) {
			f.must(f.cell.CoreV1().Pods("shop").Delete(f.Context(), "web0", metav1.DeleteOptions{}))
		}, nil},
		"a counted pod is not ready any more": {func(f *answersFixture) {
			p, err := f.cell.CoreV1().Pods("shop").Get(f.Context(), "web0", metav1.GetOptions{})
			f.must(err)
			p.Status.Conditions = nil
			_, err = f.cell.CoreV1().Pods("shop").UpdateStatus(f.Context(), p, metav1.UpdateOptions{})
			f.must(err)
		}, nil},
		"fewer pods than the floor are counted": {func(f *answersFixture) { f.protector.Status.Cells[0].Aggregation.CountedReplicas = 1 }, nil},
		"a removal is reserved": {func(f *answersFixture) {
			f.protector.Status.Cells[0].AdmissionHistory.Buckets = []v1alpha1.Bucket{{Counter: 1, PodUID: "u"}}
		}, nil},
		"the floor is unknown": {func(f *answersFixture) { half := intstr.FromString("50%"); f.protector.Spec.MinAvailable = &half }, nil},
		"counts are void":      {func(f *answersFixture) { f.protector.Status.Cells[0].Aggregation.Void = true }, nil},
		"the loss of a domain must be tolerated": {func(f *answersFixture) {
			f.protector.Spec.Spread = &v1alpha1.Spread{TopologyKey: "zone", TolerateDomainLoss: true}
		}, nil},
		"the cell was never counted": {func(f *answersFixture) { f.protector.Status.Cells = nil }, nil},
		"the protector does not exist": {func(f *answersFixture) {
			f.Read = func(context.Context, types.NamespacedName) (*v1alpha1.PodProtector, error) {
				return nil, apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("podprotectors").GroupResource(), "web")
			}
		}, nil},
		"another shard has the namespace": {func(f *answersFixture) { f.owned.slots = slot.Set{} }, nil},
		"the pods belong to another cell": {func(f *answersFixture) {
			s, err := scope.Of(&v1alpha1.CellSpec{PodSelector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"tier": "front"}}})
			f.must(err)
			f.scope = s
		}, nil},
		"guards of other nodes, and questions about other cells": {func(f *answersFixture) {
			f.ask("n2", "q2", webRef, "breakwater-protected-c1-1234-7-0/shop/web", "malformed", "a/b/c/d")
			_, err := f.nodes.Create(f.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: "n3", Labels: map[string]string{podhold.LabelAsks: ""}, Annotations: map[string]string{podhold.AnnotationStatus: "{"},
			}}, metav1.CreateOptions{})
			f.must(err)
		}, append(slices.Clone(yes), strconv.Itoa(slot.Of("shop"))+" n2 q2 "+string(webRef))},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newAnswersFixture(t)
			tc.change(f)
			if diff := cmp.Diff(tc.want, f.answers()); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnswersEndWithTheirQuestions(t *testing.T) {
	f := newAnswersFixture(t)
	if got := f.answers(); len(got) != 1 {
		t.Fatalf("answers %v, want one", got)
	}
	f.must(f.nodes.Delete(t.Context(), "n1", metav1.DeleteOptions{}))
	if got := f.answers(); len(got) > 0 {
		t.Errorf("answers %v after the last question, want none", got)
	}
	f.cell.ClearActions()
	f.must(f.answer(t.Context()))
	if actions := f.cell.Actions(); len(actions) != 1 || actions[0].GetVerb() != "list" {
		t.Errorf("requests %v without a question, want a list of Nodes", actions)
	}
}

// A protector that cannot be read does not keep others from an answer.
func TestAnswersDoNotWaitForOtherProtectors(t *testing.T) {
	f := newAnswersFixture(t)
	f.ask("n2", "q2", "breakwater-protected-c0-1234-7-0/shop/api")
	f.Read = func(_ context.Context, key types.NamespacedName) (*v1alpha1.PodProtector, error) {
		if key.Name == "api" {
			return nil, errors.New("unreachable")
		}
		return f.protector.DeepCopy(), nil
	}
	if err := f.answer(t.Context()); err == nil {
		t.Error("answer() = nil, want the error of the protector")
	}
	m, err := f.configMaps.Get(t.Context(), answersPrefix+strconv.Itoa(slot.Of("shop")), metav1.GetOptions{})
	f.must(err)
	if got := m.Data[podhold.AnswersKey]; !strings.Contains(got, string(webRef)) || strings.Contains(got, "api") {
		t.Errorf("answers %s, want only one about shop/web", got)
	}
}

// Nodes whose guards hold many pods that are needed do not keep others from an answer.
func TestAllNodesAreAnsweredInTime(t *testing.T) {
	f := newAnswersFixture(t)
	f.Read = func(_ context.Context, key types.NamespacedName) (*v1alpha1.PodProtector, error) {
		p := f.protector.DeepCopy()
		if strings.HasPrefix(key.Name, "needed") {
			p.Spec.MinAvailable = v1alpha1.Pods(9)
			p.Status.Cells[0].Aggregation.CountedSpec = quota.CountedSpec(&p.Spec)
		}
		return p, nil
	}
	for n := range 3 {
		var refs []podhold.Ref
		for i := range podhold.MaxReported {
			refs = append(refs, podhold.Ref(fmt.Sprintf("breakwater-protected-c0-1234-7-0/shop/needed-%d-%d", n, i)))
		}
		f.ask(fmt.Sprint("many-", n), "q", refs...)
	}
	const last = podhold.Ref("breakwater-protected-c0-1234-7-0/shop/last")
	f.ask("z", "q", last)
	for range 30 {
		if slices.ContainsFunc(f.answers(), func(a string) bool { return strings.HasSuffix(a, string(last)) }) {
			return
		}
	}
	t.Error("30 rounds without an answer about the protector of the last node")
}
