package podhold_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

// counted is what the model's aggregator found out about a protector at a time.
type counted struct {
	protector podhold.Ref
	at        time.Duration
	enough    bool
}

// floors is a guard that asks, and an aggregator that answers late, again, or not at all. Restores bring back old questions and answers. It
// judges each end of a held pod from the whole history of counts.
type floors struct {
	now     time.Duration
	enough  map[podhold.Ref]bool
	counts  []counted
	held    []podhold.Entry
	needs   map[string][]podhold.Ref
	asked   podhold.Asked
	ids     int
	onNode  []podhold.Question // what the Node had, newest last
	read    podhold.Question   // what the aggregator read last
	pending []podhold.Answer   // what it has computed and not published
	stored  [][]podhold.Answer // what the ConfigMap had, newest last
}

// maxAge is how old a count may be at most: the limit of an answer after its question.
const maxAge = 2 * time.Minute

func (f *floors) decide(t *rapid.T) {
	for _, held := range f.held {
		needs := f.needs[held.Pod.Name]
		got := podhold.IsSatisfied(held, needs, f.asked, f.stored[len(f.stored)-1], f.now)
		for _, p := range needs {
			isCounted := slices.ContainsFunc(f.counts, func(c counted) bool {
				return c.protector == p && c.enough && c.at-held.HeldAt >= podhold.SettleTime && f.now-c.at <= maxAge
			})
			if got && !isCounted {
				t.Fatalf("pod %s ends at %s, but protector %s had not enough pods after it was lost at %s: %+v", held.Pod.Name, f.now, p, held.HeldAt, f.counts)
			}
		}
		if got && len(needs) == 0 {
			t.Fatalf("pod %s without a known protector ends", held.Pod.Name)
		}
	}
}

func TestHeldPodsEndByLaterCountsOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		protectors := []podhold.Ref{"list/shop/web", "list/shop/api"}
		f := &floors{
			now: 1000 * time.Second, enough: map[podhold.Ref]bool{protectors[0]: true, protectors[1]: true}, needs: map[string][]podhold.Ref{},
			onNode: []podhold.Question{{}}, stored: [][]podhold.Answer{nil},
		}
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) {
				f.now += time.Duration(rapid.IntRange(1, 80).Draw(t, "seconds")) * time.Second
			},
			"lose": func(t *rapid.T) {
				pod := running("a")
				pod.Name = fmt.Sprint("web-", len(f.held))
				f.held = append(f.held, podhold.Entry{Pod: pod, HeldSince: time.Unix(1, 0), HeldAt: f.now})
				f.needs[pod.Name] = rapid.SliceOfNDistinct(rapid.SampledFrom(protectors), 0, 2, rapid.ID).Draw(t, "protectors")
				for _, p := range f.needs[pod.Name] {
					f.enough[p] = false
				}
			},
			"replace": func(t *rapid.T) {
				f.enough[rapid.SampledFrom(protectors).Draw(t, "protector")] = rapid.Bool().Draw(t, "enough")
			},
			"ask": func(*rapid.T) {
				f.ids++
				f.asked = podhold.Asked{Question: podhold.Question{ID: fmt.Sprint(f.ids), Protectors: protectors}, Node: "n", At: f.now}
				f.onNode = append(f.onNode, f.asked.Question)
			},
			"restart":  func(*rapid.T) { f.asked = podhold.Asked{} },
			"question": func(*rapid.T) { f.read = f.onNode[len(f.onNode)-1] },
			"count": func(*rapid.T) {
				a := podhold.Answer{Node: "n", Question: f.read.ID}
				for _, p := range f.read.Protectors {
					f.counts = append(f.counts, counted{p, f.now, f.enough[p]})
					if f.enough[p] {
						a.Satisfied = append(a.Satisfied, p)
					}
				}
				f.pending = append(f.pending, a, podhold.Answer{Node: "other", Question: f.read.ID, Satisfied: protectors})
			},
			"publish": func(*rapid.T) { f.stored, f.pending = append(f.stored, f.pending), nil },
			"restore": func(t *rapid.T) {
				f.onNode = append(f.onNode, rapid.SampledFrom(f.onNode).Draw(t, "question"))
				f.stored = append(f.stored, rapid.SampledFrom(f.stored).Draw(t, "answers"))
			},
			"": f.decide,
		})
	})
}

func TestIsSatisfied(t *testing.T) {
	const lost = 1000 * time.Second
	held := podhold.Entry{Pod: running("a"), HeldSince: time.Unix(1, 0), HeldAt: lost}
	asked := podhold.Asked{Question: podhold.Question{ID: "q"}, Node: "n", At: lost + podhold.SettleTime}
	yes := []podhold.Answer{{Node: "n", Question: "q", Satisfied: []podhold.Ref{"web"}}, {Node: "n", Question: "q", Satisfied: []podhold.Ref{"all"}}}
	both := []podhold.Ref{"web", "all"}
	for claim, tc := range map[string]struct {
		held    podhold.Entry
		needs   []podhold.Ref
		asked   podhold.Asked
		answers []podhold.Answer
		after   time.Duration
		want    bool
	}{
		"ends when all protectors have enough pods": {held, both, asked, yes, time.Minute, true},
		"not when only one has":                     {held, both, asked, yes[:1], time.Minute, false},
		"not when its protectors are unknown":       {held, nil, asked, yes, time.Minute, false},
		"not without a question":                    {held, both, podhold.Asked{Node: "n", At: asked.At}, []podhold.Answer{{Node: "n", Satisfied: both}}, 0, false},
		"not by an answer to an earlier question":   {held, both, podhold.Asked{Question: podhold.Question{ID: "later"}, Node: "n", At: asked.At}, yes, 0, false},
		"not by the answer to another node":         {held, both, podhold.Asked{Question: asked.Question, Node: "other", At: asked.At}, yes, 0, false},
		"not by a question right after the loss":    {held, both, podhold.Asked{Question: asked.Question, Node: "n", At: asked.At - 1}, yes, 0, false},
		"not by an old answer":                      {held, both, asked, yes, maxAge + 1, false},
		"not before the question":                   {held, both, asked, yes, -1, false},
		"not a pod that the API server has":         {podhold.Entry{Pod: running("a")}, both, asked, yes, time.Minute, false},
	} {
		if got := podhold.IsSatisfied(tc.held, tc.needs, tc.asked, tc.answers, asked.At+tc.after); got != tc.want {
			t.Errorf("%s: IsSatisfied() = %v, want %v", claim, got, tc.want)
		}
	}
}
