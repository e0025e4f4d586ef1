package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// Answers answers node guards which protectors have as many pods as their floors (rule N8 of podhold). A guard asks by its Node while it
// holds pods that it cannot register. Everything that an answer depends on is read from API servers after the question.
type Answers struct {
	cell string
	// published begins the names of the ConfigMaps by which guards name protectors of this cell, and prefix those of the answers.
	published, prefix string
	scope             scope.Scope
	writable          func() slot.Set
	nodes             corev1client.NodeInterface
	pods              corev1client.PodsGetter
	configMaps        corev1client.ConfigMapInterface
	// Read reads a protector from the core's API server.
	Read func(context.Context, types.NamespacedName) (*v1alpha1.PodProtector, error)
	now  func() time.Time
	log  logr.Logger

	// answered are the slots whose ConfigMaps have answers of this process.
	answered slot.Set
}

const (
	// answerEvery is how often questions are read. Guards ask again after podhold.AskEvery.
	answerEvery = 10 * time.Second
	// maxAnswered limits the protectors of a round. The order of nodes and of their protectors is random, so that all have their turn.
	maxAnswered = 500
	// answerPage is the number of pods in a page of a list.
	answerPage = 250
)

// NewAnswers returns what answers in a leadership, with the publisher of that leadership.
func NewAnswers(g *Publisher, nodes corev1client.NodeInterface, pods corev1client.PodsGetter) *Answers {
	return &Answers{
		cell: g.cell, published: g.prefix, prefix: "breakwater-answers-" + strings.TrimPrefix(g.prefix, publishedPrefix),
		scope: g.index.scope, writable: g.Writable, nodes: nodes, pods: pods, configMaps: g.configMaps, now: g.Now, log: g.Log,
	}
}

// Run answers until ctx ends.
func (g *Answers) Run(ctx context.Context) {
	if g == nil {
		return
	}
	repeatLogged(ctx, answerEvery, g.answer, g.log, "Failed to answer node guards which held pods are needed")
}

// guardQuestion is the question of a node's guard about protectors of this cell.
type guardQuestion struct {
	node, id   string
	protectors map[podhold.Ref]types.NamespacedName
}

// answer answers all questions.
func (g *Answers) answer(ctx context.Context) error {
	questions, err := g.questions(ctx)
	if err != nil {
		return err
	}
	rand.Shuffle(len(questions), func(i, j int) { questions[i], questions[j] = questions[j], questions[i] })
	satisfied := map[podhold.Ref]bool{}
	var failed []error
	for _, q := range questions {
		for ref, key := range q.protectors {
			if _, known := satisfied[ref]; known || len(satisfied) >= maxAnswered {
				continue
			}
			var err error
			if satisfied[ref], err = g.isSatisfied(ctx, key); err != nil {
				failed = append(failed, err)
			}
		}
	}
	failed = append(failed, g.write(ctx, answersOf(questions, satisfied)))
	return errors.Join(failed...)
}

// answersOf returns the answers by slot, as many as a ConfigMap can have. Guards whose pods have ended ask no more, so that all have their turn.
func answersOf(questions []guardQuestion, satisfied map[podhold.Ref]bool) map[int][]podhold.Answer {
	answers, bytes := map[int][]podhold.Answer{}, map[int]int{}
	for _, q := range questions {
		inSlot := map[int]*podhold.Answer{}
		for ref, key := range q.protectors {
			n := slot.Of(key.Namespace)
			size := len(ref) + len(q.node) + len(q.id) + len(`{"node":"","question":"","satisfied":["",]},`)
			if !satisfied[ref] || bytes[n]+size > maxPartBytes {
				continue
			}
			if bytes[n] += size; inSlot[n] == nil {
				inSlot[n] = &podhold.Answer{Node: q.node, Question: q.id}
			}
			inSlot[n].Satisfied = append(inSlot[n].Satisfied, ref)
		}
		for n, a := range inSlot {
			answers[n] = append(answers[n], *a)
		}
	}
	return answers
}

// questions reads the questions about protectors of slots that this shard owns.
func (g *Answers) questions(ctx context.Context) ([]guardQuestion, error) {
	nodes, err := g.nodes.List(ctx, metav1.ListOptions{LabelSelector: podhold.LabelAsks})
	if err != nil {
		return nil, fmt.Errorf("read the questions of node guards: %w", err)
	}
	slots := g.writable()
	var all []guardQuestion
	for i := range nodes.Items {
		var status podhold.Status
		if err := json.Unmarshal([]byte(nodes.Items[i].Annotations[podhold.AnnotationStatus]), &status); err != nil || status.Question == nil {
			continue // a user can change a Node
		}
		q := guardQuestion{node: nodes.Items[i].Name, id: status.Question.ID, protectors: map[podhold.Ref]types.NamespacedName{}}
		for _, ref := range status.Question.Protectors {
			parts := strings.Split(string(ref), "/")
			if len(parts) == 3 && strings.HasPrefix(parts[0], g.published) && slots.Has(slot.Of(parts[1])) {
				q.protectors[ref] = types.NamespacedName{Namespace: parts[1], Name: parts[2]}
			}
		}
		all = append(all, q)
	}
	return all, nil
}

// isSatisfied reports whether a protector has as many pods as its floor. The status may be older than the loss of pods, so that the pods of
// this cell are counted again. They are counted after the status was read: a pod whose reservation was settled before no longer exists.
func (g *Answers) isSatisfied(ctx context.Context, key types.NamespacedName) (bool, error) {
	p, err := g.Read(ctx, key)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read PodProtector %s: %w", key, err)
	}
	cell := quota.CellOf(p, g.cell)
	if cell == nil || !quota.IsSatisfied(p) || p.Spec.Spread != nil && p.Spec.Spread.TolerateDomainLoss {
		return false, nil // where pods are is not counted again
	}
	coverage, err := selectors.CountedCoverageOf(&p.Spec, cell.Aggregation.Target)
	if err != nil || !coverage.CanMatch() {
		return false, nil //nolint:nilerr // the condition Ready reports it
	}
	counted, err := g.count(ctx, p, coverage)
	return err == nil && counted >= int(cell.Aggregation.CountedReplicas), err
}

// count counts the pods of a protector in this cell.
func (g *Answers) count(ctx context.Context, p *v1alpha1.PodProtector, coverage selectors.Coverage) (counted int, err error) {
	options := metav1.ListOptions{LabelSelector: coverage.Key(), Limit: answerPage}
	for {
		page, err := g.pods.Pods(p.Namespace).List(ctx, options)
		if err != nil {
			return 0, fmt.Errorf("count the pods of PodProtector %s/%s: %w", p.Namespace, p.Name, err)
		}
		for i := range page.Items {
			pod := &page.Items[i]
			if coverage.Covers(pod.Labels) && g.scope.Has(pod.Namespace, pod.Labels) &&
				podhealth.Of(pod, p.Spec.MinReadySeconds, g.now()).Counted(p.Spec.Criterion) {
				counted++
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return counted, nil
		}
	}
}

// write writes the answers by slot, and empties those of slots without questions. It needs no compare-and-swap: each answer is true by itself.
func (g *Answers) write(ctx context.Context, answers map[int][]podhold.Answer) error {
	for n := range g.answered.Each() {
		if _, ok := answers[n]; !ok {
			answers[n] = []podhold.Answer{}
		}
	}
	for n, some := range answers {
		content, err := json.Marshal(some)
		if err != nil {
			return err
		}
		next := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name: g.prefix + strconv.Itoa(n), Labels: map[string]string{podhold.LabelAnswers: g.cell, policy.LabelManagedBy: "breakwater-aggregator"},
			},
			Data: map[string]string{podhold.AnswersKey: string(content)},
		}
		if _, err = g.configMaps.Update(ctx, next, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = g.configMaps.Create(ctx, next, metav1.CreateOptions{})
		}
		if err != nil {
			return fmt.Errorf("write ConfigMap %s: %w", next.Name, err)
		}
		if g.answered = g.answered.With(n); len(some) == 0 {
			g.answered = g.answered.Minus(slot.Set{}.With(n))
		}
	}
	return nil
}
