package podhold_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

// apiPod is a pod of the model's API server, and what has ever happened to it.
type apiPod struct {
	podhold.Pod
	exists, admitted, protected bool
	// registers is the UID by which the kubelet must know it.
	registers types.UID
}

// model is an API server that loses pods, a guard and a kubelet. It judges what the kubelet sees from the whole history.
type model struct {
	t       *rapid.T
	view    *podhold.View
	history []*apiPod
	now     time.Time
	// kubelet has the UIDs that the kubelet sees, by name.
	kubelet map[string]types.UID
	// last has the state in which the kubelet last saw each pod, by its UID of it.
	last map[types.UID]podhold.Pod
	// ended has the pods that a user released, by the kubelet's UID.
	ended map[types.UID]bool
}

func (m *model) current(name string) *apiPod {
	for _, p := range m.history {
		if p.exists && p.Name == name {
			return p
		}
	}
	return nil
}

func (m *model) byUID(uid types.UID) *apiPod {
	return m.history[slices.IndexFunc(m.history, func(p *apiPod) bool { return p.UID == uid })]
}

// lose does what the guard does when a pod disappears.
func (m *model) lose(name types.NamespacedName) {
	e, _ := m.view.Get(name)
	p := m.byUID(e.APIUID())
	admission := podhold.NotAdmitted
	if p.admitted {
		admission = podhold.Admitted
	}
	if podhold.Decide(e.Pod, p.protected, admission) == podhold.Held {
		m.view.Hold(name, m.now, 0)
		return
	}
	m.view.Drop(name)
	delete(m.kubelet, name.Name)
	if p.Deleting { // also if it was an incomplete registration, which the kubelet did not see
		last := m.last[e.Pod.UID]
		last.Deleting = true
		m.last[e.Pod.UID] = last
	}
}

// wants returns the UID by which the kubelet must see a pod; empty if it must not see it.
func (m *model) wants(p *apiPod) types.UID {
	before := m.kubelet[p.Name]
	e, _ := m.view.Get(p.NamespacedName)
	switch {
	case p.registers != "":
		return p.registers
	case e.IsHeld() && e.Registered == p.UID:
		return before
	case before == "" || m.mayGo(before):
		return p.UID
	case !p.Started && !p.Deleting && !p.Ended && !p.Mirror && p.Owner.Name == m.last[before].Owner.Name && slices.Equal(p.Containers, m.last[before].Containers):
		return before
	default:
		return ""
	}
}

func (m *model) observe(p *apiPod) {
	want := m.wants(p)
	change := m.view.Observe(p.Pod)
	if change == podhold.Lose {
		m.lose(p.NamespacedName)
		change = m.view.Observe(p.Pod)
	}
	var got types.UID
	e, _ := m.view.Get(p.NamespacedName)
	if e.IsHeld() && e.Registered == p.UID { // an incomplete registration: the kubelet sees the held pod
		got = e.Pod.UID
	}
	if change == podhold.Show {
		got = e.Pod.UID
		containers := p.Containers
		if before, ok := m.last[got]; ok {
			containers = before.Containers
		}
		started := p.Started || m.last[got].Started
		m.kubelet[p.Name], m.last[got], p.registers = got, p.Pod, got
		last := m.last[got]
		last.Containers, last.Started = containers, started
		m.last[got] = last
	}
	if got != want {
		m.t.Fatalf("the kubelet sees pod %s with UID %s as UID %q, want %q", p.Name, p.UID, got, want)
	}
}

// mayGo reports whether the kubelet may lose a pod.
func (m *model) mayGo(uid types.UID) bool {
	last := m.last[uid]
	if last.Deleting || last.Ended || !last.Started || last.Mirror || m.ended[uid] {
		return true
	}
	return slices.ContainsFunc(m.history, func(p *apiPod) bool { return p.registers == uid && (p.admitted || !p.protected) })
}

func (m *model) vanish(p *apiPod) {
	if last, ok := m.last[p.registers]; ok { // the event has the last state
		last.Deleting, last.Ended, last.Started = p.Deleting, p.Ended, last.Started || p.Started
		m.last[p.registers] = last
	}
	if m.view.Vanish(p.Pod) == podhold.Lose {
		m.lose(p.NamespacedName)
	}
}

// check judges what the kubelet sees.
func (m *model) check() {
	for _, e := range m.view.All() {
		if m.kubelet[e.Pod.Name] != e.Pod.UID {
			m.t.Fatalf("the view has %s with UID %s, and the kubelet UID %s", e.Pod.Name, e.Pod.UID, m.kubelet[e.Pod.Name])
		}
	}
	for uid, last := range m.last {
		if m.kubelet[last.Name] != uid && !m.mayGo(uid) {
			m.t.Fatalf("the kubelet lost pod %s with UID %s, which no client removed: %#v, view %+v", last.Name, uid, last, m.view.All())
		}
	}
	for name, uid := range m.kubelet {
		p := m.current(name)
		if e, _ := m.view.Get(types.NamespacedName{Namespace: "shop", Name: name}); p == nil && !e.IsHeld() {
			m.t.Fatalf("the kubelet still sees pod %s with UID %s, which is gone and not held", name, uid)
		}
	}
	for _, p := range m.history {
		if want := m.wants(p); p.exists && want != "" && m.kubelet[p.Name] != want {
			m.t.Fatalf("the kubelet sees pod %s with UID %s as UID %q, want %q", p.Name, p.UID, m.kubelet[p.Name], want)
		}
	}
}

func TestKubeletLosesOnlyWhatWasRemoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			t: t, view: podhold.NewView(), now: time.Unix(1, 0), kubelet: map[string]types.UID{},
			last: map[types.UID]podhold.Pod{}, ended: map[types.UID]bool{},
		}
		names := rapid.SampledFrom([]string{"web-0", "web-1"})
		watching := true
		event := func(p *apiPod) {
			if watching {
				m.observe(p)
			}
		}
		// existing returns a pod that exists. It creates one if there is none: skipping a step would end the test early.
		existing := func(t *rapid.T) *apiPod {
			name := names.Draw(t, "name")
			if p := m.current(name); p != nil {
				return p
			}
			rarely := rapid.IntRange(0, 9)
			p := &apiPod{Pod: running(types.UID(fmt.Sprint(len(m.history)))), exists: true, protected: rarely.Draw(t, "unprotected") > 0}
			p.Name, p.Started, p.Mirror = name, rapid.Bool().Draw(t, "started"), rarely.Draw(t, "mirror") == 0
			p.Owner.Name, p.Containers = rapid.SampledFrom([]string{"web", "api"}).Draw(t, "owner"), []string{rapid.SampledFrom([]string{"1", "2"}).Draw(t, "image")}
			if e, ok := m.view.Get(p.NamespacedName); ok { // a name has one kind of protection in its life: labels belong to the workload
				p.protected = m.byUID(e.APIUID()).protected
			}
			m.history = append(m.history, p)
			event(p)
			return p
		}
		relist := func() {
			listed := map[types.UID]bool{}
			for _, p := range m.history {
				listed[p.UID] = listed[p.UID] || p.exists
			}
			for _, p := range m.view.Missing(listed) {
				m.lose(p.NamespacedName)
			}
			for _, p := range m.history {
				if p.exists {
					m.observe(p)
				}
			}
			watching = true
		}
		t.Repeat(map[string]func(*rapid.T){
			"register": func(*rapid.T) {
				for _, e := range m.view.Held() {
					if m.current(e.Pod.Name) == nil && watching {
						p := &apiPod{Pod: e.Pod, exists: true, protected: true}
						p.UID, p.Started = types.UID(fmt.Sprint(len(m.history))), false
						m.history = append(m.history, p)
						m.observe(p)
					}
				}
			},
			"complete": func(*rapid.T) {
				for _, e := range m.view.Held() {
					if e.Registered != "" && m.byUID(e.Registered).exists {
						m.view.Complete(e.Pod.NamespacedName, e.Registered)
						m.byUID(e.Registered).registers = e.Pod.UID
					}
				}
			},
			"start":  func(t *rapid.T) { p := existing(t); p.Started = true; event(p) },
			"end":    func(t *rapid.T) { p := existing(t); p.Ended = true; event(p) },
			"delete": func(t *rapid.T) { p := existing(t); p.Deleting = true; event(p) },
			"remove without grace period": func(t *rapid.T) {
				p := existing(t)
				p.admitted, p.Deleting, p.exists = true, true, false
				if watching {
					m.vanish(p)
				}
			},
			"finish": func(t *rapid.T) {
				if p := existing(t); p.Deleting {
					if p.exists = false; watching {
						m.vanish(p)
					}
				}
			},
			"erase": func(t *rapid.T) {
				p := existing(t)
				if p.exists = false; watching {
					m.vanish(p)
				}
			},
			"release": func(*rapid.T) {
				for _, e := range m.view.Held() {
					m.ended[e.Pod.UID] = true
					m.view.Drop(e.Pod.NamespacedName)
					delete(m.kubelet, e.Pod.Name)
				}
				relist()
			},
			"disconnect": func(*rapid.T) { watching = false },
			"list":       func(*rapid.T) { relist() },
			"list by a stream": func(*rapid.T) {
				listed := map[types.UID]bool{}
				for _, p := range m.history {
					if p.exists {
						listed[p.UID] = true
						m.observe(p)
					}
				}
				for _, p := range m.view.Missing(listed) {
					m.lose(p.NamespacedName)
				}
				watching = true
			},
			"replay": func(t *rapid.T) {
				if existing(t); watching {
					if p := rapid.SampledFrom(m.history).Draw(t, "event"); !p.exists && m.view.Vanish(p.Pod) == podhold.Lose {
						m.lose(p.NamespacedName)
					}
				}
			},
			"restart": func(*rapid.T) { m.view = podhold.NewView(m.view.All()...) },
			"": func(*rapid.T) {
				if watching {
					m.check()
				}
			},
		})
	})
}
