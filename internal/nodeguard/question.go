package nodeguard

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

// satisfied returns for each held pod that cannot be registered, and has been held for long enough, whether the floors of its protectors are
// satisfied without it (rule N8). It asks the aggregators.
func (e *ending) satisfied(ctx context.Context, held []podhold.Entry) map[types.UID]bool {
	g := e.guard
	protectors := g.askedFor(held, e.records)
	asked := g.ask(protectors)
	satisfied := map[types.UID]bool{}
	if len(protectors) == 0 {
		return satisfied
	}
	answers, err := e.records.answers(ctx)
	if err != nil {
		g.log.V(1).Info("Failed to read whether held pods are needed", "reason", err.Error())
	}
	for _, one := range held {
		if refs, ok := protectors[one.Pod.UID]; ok {
			satisfied[one.Pod.UID] = podhold.IsSatisfied(one, refs, asked, answers, g.running())
		}
	}
	return satisfied
}

// askedFor returns the protectors of the held pods that the guard asks about.
func (g *Guard) askedFor(held []podhold.Entry, r *records) map[types.UID][]podhold.Ref {
	protectors := map[types.UID][]podhold.Ref{}
	for _, one := range held {
		g.mu.Lock()
		unregistrable := g.attempts[one.Pod.UID].unregistrable
		g.mu.Unlock()
		if !unregistrable || !podhold.MayAsk(one, g.running()) {
			continue
		}
		if pod, err := g.lastState(one.Pod.UID); err == nil {
			protectors[one.Pod.UID] = r.Covering(pod)
		}
	}
	return protectors
}

// ask asks about the protectors of held pods, again if the last question is old. It returns the question. If there are too many protectors, it begins
// with a random one, so that all have their turn.
func (g *Guard) ask(protectors map[types.UID][]podhold.Ref) podhold.Asked {
	refs := slices.Concat(slices.Collect(maps.Values(protectors))...)
	slices.Sort(refs)
	refs = slices.Compact(refs)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch now := g.running(); {
	case len(refs) == 0:
		g.asked = podhold.Asked{}
	case g.asked.ID == "", now-g.asked.At >= podhold.AskEvery:
		if len(refs) > podhold.MaxReported {
			first := rand.IntN(len(refs))
			refs = slices.Concat(refs[first:], refs[:first])[:podhold.MaxReported]
		}
		question := podhold.Question{ID: string(uuid.NewUUID()), Protectors: refs}
		g.asked = podhold.Asked{Question: question, Node: g.node, At: now}
	}
	return g.asked
}
