package selectors

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// check fails the test unless the tree of every namespace is consistent: each place of an entry holds it, every held entry has a
// place, no branch is empty, and the counts of the vocabulary are correct.
func check[ID comparable](t *testing.T, x *Index[ID]) {
	t.Helper()
	members := map[*space[ID]]int{}
	for id, e := range x.entries {
		if e.space == nil {
			continue
		}
		members[e.space]++
		for _, p := range e.positions {
			if p.node.entries.at(p.index).entry != e {
				t.Fatalf("entry %v is not at its position", id)
			}
		}
	}
	if len(members) != len(x.spaces) {
		t.Fatalf("index has %[2]d namespaces, want %[1]d", len(members), len(x.spaces))
	}
	for sp, want := range members {
		if sp.members != want {
			t.Fatalf("namespace %s: members = %d, want %d", sp.namespace, sp.members, want)
		}
		further := map[*term[ID]]int{}
		places := checkNode(t, &sp.root, fromRoot(sp), further)
		conditions := 0
		for _, e := range x.entries {
			if e.space == sp {
				places -= len(e.positions)
				conditions += len(e.conditions)
			}
		}
		if places != 0 {
			t.Fatalf("namespace %s: %d entries have no position", sp.namespace, places)
		}
		for text, k := range sp.words.keys {
			conditions -= k.uses
			if k.anyValue.further != further[&k.anyValue] {
				t.Fatalf("key %s: further branches = %d, want %d", text, k.anyValue.further, further[&k.anyValue])
			}
			used := 0
			for w := range k.values.all() {
				used++
				if k.values.find(w.hash, func(other *term[ID]) bool { return other == w }) != w {
					t.Fatalf("term %s=%v not found", text, w.word)
				}
				if w.uses < 1 || w.further != further[w] {
					t.Fatalf("term %s=%v: uses = %d, further branches = %d, want %d", text, w.word, w.uses, w.further, further[w])
				}
			}
			if k.values.used != used {
				t.Fatalf("key %s: values = %d, want %d", text, k.values.used, used)
			}
		}
		if conditions != 0 {
			t.Fatalf("namespace %s: %d uses of keys are not counted", sp.namespace, conditions)
		}
	}
}

// all yields all items of the table.
func (t *table[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, s := range t.slots {
			if s.item != nil && !yield(s.item) {
				return
			}
		}
	}
}

// fromRoot collects the branches of the root, which are stored in their terms.
func fromRoot[ID comparable](sp *space[ID]) []*node[ID] {
	var branches []*node[ID]
	note := func(by *term[ID]) {
		if by.first.parent != nil {
			branches = append(branches, &by.first)
		}
	}
	for _, k := range sp.words.keys {
		note(&k.anyValue)
		for w := range k.values.all() {
			note(w)
		}
	}
	return branches
}

// checkNode returns the number of entries at and below the node. It counts the branches of all nodes except the root in further.
func checkNode[ID comparable](
	t *testing.T, n *node[ID], branches []*node[ID], further map[*term[ID]]int,
) int {
	t.Helper()
	if !n.grown && (n.count > 0 || n.entries.size() > maxEntriesPerNode) {
		t.Fatalf("node with %d branches and %d entries has not grown", n.count, n.entries.size())
	}
	if n.count != len(branches) {
		t.Fatalf("node: count = %d, want %d branches", n.count, len(branches))
	}
	places := n.entries.size()
	for _, below := range branches {
		by := below.term
		if below.parent != n || n.child(by) != below || by.key.bits&^n.keys != 0 {
			t.Fatalf("branch of %s=%v not found by its term", by.key.text, by.word)
		}
		if below.entries.size() == 0 && below.count == 0 {
			t.Fatalf("branch of %s=%v is empty", by.key.text, by.word)
		}
		if n.parent != nil {
			further[by]++
		}
		places += checkNode(t, below, slices.Collect(below.branches.all()), further)
	}
	return places
}

// random returns a selector of up to four keys with any operators. It has few values, so that buckets overflow.
func random(r *rand.Rand) v1alpha1.PodSelector {
	operators := []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpIn,
		metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
	}
	var s v1alpha1.PodSelector
	for range r.IntN(5) {
		e := v1alpha1.PodSelectorRequirement{Key: fmt.Sprintf("key-%d", r.IntN(4)), Operator: operators[r.IntN(len(operators))]}
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
			for range 1 + r.IntN(2) {
				e.Values = append(e.Values, fmt.Sprint(r.IntN(5)))
			}
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	return s
}

func TestChurnLeavesNoEntries(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := New[int]()
	for round := range 3 {
		for i := range 5000 {
			s, err := Compile(random(r))
			if err != nil {
				t.Fatal(err)
			}
			x.Set(r.IntN(3000), fmt.Sprint(r.IntN(2)), s)
			if i%3 == 0 {
				x.Delete(r.IntN(3000))
			}
			if i%500 == 0 {
				check(t, x)
			}
		}
		if x.Len() == 0 {
			t.Fatal("no selector left to delete")
		}
		for _, id := range r.Perm(3000) {
			x.Delete(id)
			if id%500 == 0 {
				check(t, x)
			}
		}
		if len(x.entries) != 0 || len(x.spaces) != 0 {
			t.Fatalf("round %d leaves %d entries and %d namespaces, want 0", round, len(x.entries), len(x.spaces))
		}
	}
}

// A namespace that stays also releases the memory of its deleted selectors.
func TestDeletingAllButOneLeavesOneNode(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	x := New[int]()
	x.Set(-1, "shop", Everything())
	for i := range 2000 {
		s, err := Compile(random(r))
		if err != nil {
			t.Fatal(err)
		}
		x.Set(i, "shop", s)
	}
	for i := range 2000 {
		x.Delete(i)
	}
	check(t, x)
	sp := x.spaces["shop"]
	if len(sp.words.keys) != 0 || sp.root.branches.slots != nil || cap(sp.root.entries.rest) > 2*maxEntriesPerNode {
		t.Errorf("one selector is left with %d keys, branches %v and room for %d in its node",
			len(sp.words.keys), sp.root.branches, cap(sp.root.entries.rest))
	}
}

// Although the cross product of a selector's values is 10^5 or 10^6, it has at most as many places as values.
func TestPositionsAreLinearInTheSelectorSize(t *testing.T) {
	for _, shape := range []struct{ keys, values, vocabulary int }{{5, 10, 12}, {3, 100, 120}, {3, 100, 1000}, {2, 100, 150}} {
		x := New[int]()
		for i := range 1000 {
			var s v1alpha1.PodSelector
			for k := range shape.keys {
				e := v1alpha1.PodSelectorRequirement{Key: fmt.Sprintf("key-%d", k), Operator: metav1.LabelSelectorOpIn}
				for v := range shape.values {
					e.Values = append(e.Values, fmt.Sprint((i+v*(k+1))%shape.vocabulary))
				}
				s.MatchExpressions = append(s.MatchExpressions, e)
			}
			compiled, err := Compile(s)
			if err != nil {
				t.Fatal(err)
			}
			x.Set(i, "shop", compiled)
		}
		check(t, x)
		for id, e := range x.entries {
			if len(e.positions) > shape.keys*shape.values {
				t.Fatalf("%+v: selector %d has %d positions", shape, id, len(e.positions))
			}
		}
	}
}
