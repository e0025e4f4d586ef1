package snapshot

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

func none(func(quota.Reservation) bool) {}

// listOf returns the list of these pods as a reflector passes it on.
func listOf(pods ...*corev1.Pod) (list []any) {
	strip := stripping(1)
	for _, p := range pods {
		list = append(list, strip(p))
	}
	return list
}

func setReady(p *corev1.Pod, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
}

func drawPod(t *rapid.T, pods map[types.UID]*corev1.Pod, label string) *corev1.Pod {
	var uids []types.UID
	for uid := range pods {
		uids = append(uids, uid)
	}
	if len(uids) == 0 {
		t.Skip("no pods")
	}
	slices.Sort(uids)
	return pods[rapid.SampledFrom(uids).Draw(t, label)]
}

func samplePod(name, uid, version string, labels map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(uid), Labels: labels, ResourceVersion: version,
	}}
	p.Spec.NodeName = "node-1"
	p.Status.Phase = corev1.PodRunning
	setReady(p, true)
	return p
}

func TestVersionGoingBackwardsEndsLeadership(t *testing.T) {
	for claim, rewind := range map[string]func(s *Snapshot) error{
		"a list":     func(s *Snapshot) error { return s.Replace(nil, "9") },
		"an event":   func(s *Snapshot) error { return s.Update(samplePod("a", "a", "9", nil)) },
		"a deletion": func(s *Snapshot) error { return s.Delete(samplePod("a", "a", "9", nil)) },
		"a bookmark": func(s *Snapshot) error { s.UpdateResourceVersion("9"); return errors.New("told otherwise") },
	} {
		t.Run(claim, func(t *testing.T) {
			var rewound error
			s := New(func(types.NamespacedName, time.Duration) {}, func(err error) { rewound = err }, time.Now, time.Now)
			if err := s.Replace(listOf(samplePod("a", "a", "10", nil)), "10"); err != nil || rewound != nil {
				t.Fatal(err, rewound)
			}
			if err := rewind(s); err == nil || rewound == nil {
				t.Errorf("error %v, leadership ended for %v, want both", err, rewound)
			}
		})
	}
}

func TestMalformedVersionFails(t *testing.T) {
	s := New(func(types.NamespacedName, time.Duration) {}, func(error) {}, time.Now, time.Now)
	if err := s.Replace(nil, "abc"); err == nil {
		t.Error("Replace() succeeds with a malformed version")
	}
	select {
	case <-s.Listed():
		t.Error("a list with a malformed version counts as received")
	default:
	}
}

// A cell that was restored and has advanced past its old version is detected by a pod that had ended.
func TestReappearedPodEndsLeadership(t *testing.T) {
	var rewound error
	s := New(func(types.NamespacedName, time.Duration) {}, func(err error) { rewound = err }, time.Now, time.Now)
	for _, err := range []error{
		s.Replace(listOf(samplePod("a", "a", "10", nil)), "10"), s.Delete(samplePod("a", "a", "11", nil)), s.Add(samplePod("b", "b", "12", nil)),
	} {
		if err != nil || rewound != nil {
			t.Fatal(err, rewound)
		}
	}
	if err := s.Replace(listOf(samplePod("a", "a", "10", nil)), "13"); err != nil || rewound == nil {
		t.Errorf("error %v, leadership ended for %v, want the latter alone", err, rewound)
	}
}

func TestPodMissingFromLiveReadIsNeverCounted(t *testing.T) {
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	s := New(func(types.NamespacedName, time.Duration) {}, func(error) {}, time.Now, time.Now)
	s.Cover(key, selectors.Coverage{Selector: selectors.Everything()}, 0)
	if err := s.Replace(nil, "10"); err != nil {
		t.Fatal(err)
	}
	s.RecordUnlisted([]quota.UIDHash{quota.HashUID("late")}, 20)
	// The stream lags: it shows the pod only now, as it was before its end.
	if err := s.Add(samplePod("late", "late", "15", nil)); err != nil {
		t.Fatal(err)
	}
	c, ok := s.Count(key, &v1alpha1.PodProtectorSpec{}, none, nil, nil)
	if !ok || c.Aggregation.CountedReplicas != 0 || c.Aggregation.SettledVersion != "20" {
		t.Errorf("counted %+v, want none, and settled version 20", c.Aggregation)
	}
	s.UpdateResourceVersion("21")
	if c, _ := s.Count(key, &v1alpha1.PodProtectorSpec{}, none, nil, nil); c.Aggregation.SettledVersion != "" {
		t.Errorf("settled version %q of a snapshot that has come further", c.Aggregation.SettledVersion)
	}
}

// A cell that was restored and has advanced past its old version while the stream lagged is detected by a pod that had ended. There
// is no event of that pod.
func TestPodMissingFromLiveReadThatStaysEndsLeadership(t *testing.T) {
	lost := samplePod("lost", "lost", "15", nil)
	bury := func(s *Snapshot) error { s.RecordUnlisted([]quota.UIDHash{quota.HashUID("lost")}, 20); return nil }
	list := func(s *Snapshot) error { return s.Replace(listOf(lost), "15") }
	add := func(s *Snapshot) error { return s.Add(lost) }
	remove := func(s *Snapshot) error { return s.Delete(samplePod("lost", "lost", "16", nil)) }
	listWithout := func(s *Snapshot) error { return s.Replace(nil, "16") }
	other := func(version string) func(*Snapshot) error {
		return func(s *Snapshot) error { return s.Add(samplePod(version, version, version, nil)) }
	}
	bookmark := func(s *Snapshot) error { s.UpdateResourceVersion("20"); return nil }
	for claim, test := range map[string]struct {
		steps []func(*Snapshot) error
		ends  bool
	}{
		"another list has it, and an event passes its end":     {[]func(*Snapshot) error{bury, list, other("20")}, true},
		"another list has it, and a bookmark passes its end":   {[]func(*Snapshot) error{bury, list, bookmark}, true},
		"another list has it, and a list passes its end":       {[]func(*Snapshot) error{bury, list, func(s *Snapshot) error { return s.Replace(listOf(lost), "20") }}, true},
		"the stream shows it, and passes its end":              {[]func(*Snapshot) error{bury, add, other("21")}, true},
		"the stream shows it before the live list is answered": {[]func(*Snapshot) error{list, bury, other("20")}, true},
		"the stream has not passed its end":                    {[]func(*Snapshot) error{bury, list, other("19")}, false},
		"the stream shows its end":                             {[]func(*Snapshot) error{bury, add, remove, other("21")}, false},
		"the stream shows its end, after the live list":        {[]func(*Snapshot) error{add, bury, remove, other("21")}, false},
		"another list does not have it":                        {[]func(*Snapshot) error{bury, add, listWithout, other("21")}, false},
		"the stream does not show it":                          {[]func(*Snapshot) error{bury, other("21")}, false},
	} {
		t.Run(claim, func(t *testing.T) {
			var rewound error
			s := New(func(types.NamespacedName, time.Duration) {}, func(err error) { rewound = err }, time.Now, time.Now)
			for _, step := range append([]func(*Snapshot) error{func(s *Snapshot) error { return s.Replace(nil, "10") }}, test.steps...) {
				if err := step(s); err != nil {
					t.Fatal(err)
				}
			}
			if (rewound != nil) != test.ends {
				t.Errorf("leadership ended for %v, want an end: %v", rewound, test.ends)
			}
		})
	}
}

// A reservation of a pod that the stream shows after its end may be of another history than that end.
func TestReservationStaysWhilePodIsShownAfterItsEnd(t *testing.T) {
	key, hash := types.NamespacedName{Namespace: "default", Name: "web"}, quota.HashUID("lost")
	reservations := func(yield func(quota.Reservation) bool) { yield(quota.Reservation{Hash: hash}) }
	s := New(func(types.NamespacedName, time.Duration) {}, func(error) {}, time.Now, time.Now)
	s.Cover(key, selectors.Coverage{Selector: selectors.Everything()}, 0)
	sees := func(when string, want quota.Observation, err error) {
		t.Helper()
		c, _ := s.Count(key, &v1alpha1.PodProtectorSpec{}, reservations, nil, nil)
		if got := c.PodStates[hash]; err != nil || got != want {
			t.Errorf("%s: error %v, sighting %v, want %v", when, err, got, want)
		}
	}
	sees("before it was shown", quota.Unobserved, s.Replace(nil, "10"))
	s.RecordUnlisted([]quota.UIDHash{hash}, 20)
	sees("when a live list did not have it", quota.Absent, nil)
	sees("when the stream shows it", quota.Alive, s.Add(samplePod("lost", "lost", "15", nil)))
	sees("when the stream has shown its end", quota.Absent, s.Delete(samplePod("lost", "lost", "16", nil)))
}

func TestOnlyPassedRemovedPodsAreForgotten(t *testing.T) {
	clock := time.Now()
	s := New(func(types.NamespacedName, time.Duration) {}, func(error) {}, func() time.Time { return clock }, func() time.Time { return clock })
	if err := s.Replace(nil, "10"); err != nil {
		t.Fatal(err)
	}
	s.RecordUnlisted([]quota.UIDHash{1}, 10)
	s.RecordUnlisted([]quota.UIDHash{2}, 1000)
	clock = clock.Add(removedPodRetention + time.Second)
	for version := 11; version < 200; version++ {
		s.UpdateResourceVersion(strconv.Itoa(version))
	}
	if _, ok := s.removed.removed[1]; ok {
		t.Error("an old removed pod is still remembered, want it forgotten")
	}
	if _, ok := s.removed.removed[2]; !ok {
		t.Error("forgot a removed pod that the stream has not passed")
	}
}

// A client whose removal was denied waits for pods that become ready, and for no other change of pods.
func TestReadyPodsAreCountedSoonerWithoutBudget(t *testing.T) {
	const rate = time.Second
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	var waits []time.Duration
	spent := false
	s := New(func(_ types.NamespacedName, wait time.Duration) { waits = append(waits, wait) }, func(err error) { t.Fatal(err) }, time.Now, time.Now)
	s.notifier.hasNoBudget = func(asked types.NamespacedName) bool { return asked == key && spent }
	s.Cover(key, selectors.Coverage{Selector: selectors.Everything()}, rate)
	if err := s.Replace(nil, "1"); err != nil {
		t.Fatal(err)
	}
	version := 1
	for _, step := range []struct {
		what                string
		spent, there, ready bool
		want                time.Duration
	}{
		{"a pod comes", true, true, false, rate},
		{"it becomes ready", true, true, true, rate / readyPodSpeedup},
		{"it is ready still", true, true, true, rate},
		{"it is not ready any more", true, true, false, rate},
		{"it becomes ready while there is budget", false, true, true, rate},
		{"it goes", true, false, true, rate},
	} {
		spent, waits = step.spent, nil
		version++
		p := samplePod("a", "a", strconv.Itoa(version), nil)
		setReady(p, step.ready)
		change := s.Update
		if !step.there {
			change = s.Delete
		}
		if err := change(p); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(waits, []time.Duration{step.want}) {
			t.Errorf("%s: waits %v, want %v", step.what, waits, step.want)
		}
	}
}

// The counts of a snapshot equal those of a linear scan of the pods, through any events and any change of labels and protectors. Each
// change is announced to its protectors, and no state is left over.
func TestSnapshotCountsMatchLinearScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		changed := map[types.NamespacedName]bool{}
		s := New(func(key types.NamespacedName, _ time.Duration) { changed[key] = true },
			func(err error) { t.Fatal(err) }, time.Now, time.Now)
		pods, covers := map[types.UID]*corev1.Pod{}, map[types.NamespacedName]*v1alpha1.PodProtectorSpec{}
		version := 1
		next := func() string { version++; return strconv.Itoa(version) }
		if err := s.Replace(nil, next()); err != nil {
			t.Fatal(err)
		}
		matching := func(p *corev1.Pod) (keys []types.NamespacedName) {
			for key, spec := range covers {
				if p != nil && key.Namespace == p.Namespace && covered(spec, p) {
					keys = append(keys, key)
				}
			}
			return keys
		}
		serial := 0
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				clear(changed)
				uid := types.UID(fmt.Sprint(rapid.IntRange(max(serial-6, 0), serial).Draw(t, "pod")))
				old := pods[uid]
				if old == nil {
					serial++
					uid = types.UID(fmt.Sprint(serial))
				}
				p := samplePod("web-"+string(uid), string(uid), next(), map[string]string{
					"app": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "app"), "track": rapid.SampledFrom([]string{"x", "y"}).Draw(t, "track"),
				})
				if rapid.IntRange(0, 3).Draw(t, "own criterion") == 0 {
					p.Annotations = map[string]string{v1alpha1.AnnotationCriterion: string(drawCriterion(t))}
				}
				p.Namespace = "ns-" + string(uid[len(uid)-1:])[:1]
				setReady(p, rapid.Bool().Draw(t, "ready"))
				pods[uid] = p
				if err := s.Update(p.DeepCopy()); err != nil {
					t.Fatal(err)
				}
				for _, key := range append(matching(old), matching(p)...) {
					if !changed[key] {
						t.Fatalf("%s was not notified of pod %s", key, uid)
					}
				}
			},
			"delete": func(t *rapid.T) {
				if len(pods) == 0 {
					t.Skip("no pods")
				}
				var uids []types.UID
				for uid := range pods {
					uids = append(uids, uid)
				}
				slices.Sort(uids)
				uid := rapid.SampledFrom(uids).Draw(t, "pod")
				p := pods[uid].DeepCopy()
				delete(pods, uid)
				p.ResourceVersion = next()
				if err := s.Delete(p); err != nil {
					t.Fatal(err)
				}
			},
			"relist": func(t *rapid.T) {
				var list []*corev1.Pod
				for uid, p := range pods {
					if rapid.IntRange(0, 9).Draw(t, "kept "+string(uid)) == 0 {
						delete(pods, uid)
						continue
					}
					list = append(list, p.DeepCopy())
				}
				if err := s.Replace(listOf(list...), next()); err != nil {
					t.Fatal(err)
				}
			},
			"cover": func(t *rapid.T) {
				key := types.NamespacedName{
					Namespace: fmt.Sprint("ns-", rapid.IntRange(0, 9).Draw(t, "namespace")),
					Name:      fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "name")),
				}
				spec := &v1alpha1.PodProtectorSpec{Criterion: drawCriterion(t), Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{
					"app": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "app"),
				}}}
				if exempt := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "exempt"); exempt != "" {
					spec.ExemptPodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"track": exempt}}
				}
				coverage, err := selectors.CoverageOf(spec, nil)
				if err != nil {
					t.Fatal(err)
				}
				covers[key] = spec
				s.Cover(key, coverage, 0)
			},
			"uncover": func(*rapid.T) {
				for key := range covers {
					delete(covers, key)
					s.Uncover(key)
					return
				}
			},
			"": func(t *rapid.T) { checkCounts(t, s, pods, covers) },
		})
		if err := s.Replace(nil, next()); err != nil {
			t.Fatal(err)
		}
		if len(s.pods.byHash) != 0 || len(s.pods.byNamespace) != 0 || len(s.pods.labels) != 0 {
			t.Fatalf("without pods the snapshot has %d pods, %d namespaces and %d label sets, want none",
				len(s.pods.byHash), len(s.pods.byNamespace), len(s.pods.labels))
		}
	})
}

func checkCounts(
	t *rapid.T, s *Snapshot, pods map[types.UID]*corev1.Pod, covers map[types.NamespacedName]*v1alpha1.PodProtectorSpec,
) {
	if got, protectors := s.Size(); got != len(pods) || protectors != len(covers) {
		t.Fatalf("%d pods and %d protectors, want %d and %d", got, protectors, len(pods), len(covers))
	}
	for key, spec := range covers {
		var total, available, counted int32
		for _, p := range pods {
			if p.Namespace != key.Namespace || !covered(spec, p) {
				continue
			}
			total++
			health := podhealth.Of(p, 0, time.Now())
			if health.Available {
				available++
			}
			if health.Counted(spec.Criterion) {
				counted++
			}
		}
		c, ok := s.Count(key, spec, none, nil, nil)
		if a := c.Aggregation; !ok || a.TotalReplicas != total || a.AvailableReplicas != available || a.CountedReplicas != counted {
			t.Fatalf("%s counts %+v, want %d pods, %d available, %d that count", key, a, total, available, counted)
		}
	}
}

// covered reports whether a spec covers a sample pod, by its labels.
func covered(spec *v1alpha1.PodProtectorSpec, p *corev1.Pod) bool {
	exempt := spec.ExemptPodSelector
	return p.Labels["app"] == spec.Selector.MatchLabels["app"] && (exempt == nil || p.Labels["track"] != exempt.MatchLabels["track"])
}

func drawCriterion(t *rapid.T) v1alpha1.Criterion {
	return rapid.SampledFrom([]v1alpha1.Criterion{
		v1alpha1.CriterionAvailable, v1alpha1.CriterionReady, v1alpha1.CriterionRunning, v1alpha1.CriterionScheduled,
	}).Draw(t, "criterion")
}
