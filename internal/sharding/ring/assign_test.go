package ring_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

func shardsOf(states map[string]v1alpha1.ShardState) *ring.Shards { return ring.NewShards(states, 20) }

var three = map[string]v1alpha1.ShardState{
	"a": v1alpha1.ShardReady, "late": v1alpha1.ShardUncertain, "gone": v1alpha1.ShardDead,
}

func TestDecide(t *testing.T) {
	for claim, test := range map[string]struct {
		has    ring.Placement
		want   string
		action ring.Action
	}{
		"one with the right shard stays":                   {ring.Placement{Shard: "a"}, "a", ring.Keep},
		"one without a shard is assigned":                  {ring.Placement{}, "a", ring.Assign},
		"one that is drained of no shard is assigned":      {ring.Placement{Draining: true}, "a", ring.Assign},
		"one of a dead shard is assigned":                  {ring.Placement{Shard: "gone"}, "a", ring.Assign},
		"one that a dead shard was to release is assigned": {ring.Placement{Shard: "gone", Draining: true}, "a", ring.Assign},
		"one of an unknown shard is assigned":              {ring.Placement{Shard: "x"}, "a", ring.Assign},
		"one of another shard is drained":                  {ring.Placement{Shard: "late"}, "a", ring.Drain},
		"one that another shard is releasing waits":        {ring.Placement{Shard: "late", Draining: true}, "a", ring.Await},
		"one that was to move and is to stay is undrained": {ring.Placement{Shard: "a", Draining: true}, "a", ring.Undrain},
		"one stays as it is when there are no shards":      {ring.Placement{Shard: "gone"}, "", ring.Keep},
		"one of a shard that is late stays with that":      {ring.Placement{Shard: "late"}, "late", ring.Keep},
		"one without a shard is assigned to a late shard":  {ring.Placement{}, "late", ring.Assign},
	} {
		t.Run(claim, func(t *testing.T) {
			if action := shardsOf(three).Decide(test.has, test.want); action != test.action {
				t.Errorf("%s, want %s", action, test.action)
			}
		})
	}
}

func TestControlledObjectFollowsController(t *testing.T) {
	for claim, test := range map[string]struct {
		has, controller ring.Placement
		action          ring.Action
	}{
		"it stays with it":                               {ring.Placement{Shard: "a"}, ring.Placement{Shard: "a"}, ring.Keep},
		"it stays while that is drained":                 {ring.Placement{Shard: "a"}, ring.Placement{Shard: "a", Draining: true}, ring.Keep},
		"it waits for one that is not assigned":          {ring.Placement{Shard: "a"}, ring.Placement{}, ring.Keep},
		"it waits for one of a dead shard":               {ring.Placement{Shard: "a"}, ring.Placement{Shard: "gone"}, ring.Keep},
		"it follows":                                     {ring.Placement{Shard: "late"}, ring.Placement{Shard: "a"}, ring.Assign},
		"it is assigned":                                 {ring.Placement{}, ring.Placement{Shard: "a"}, ring.Assign},
		"it goes back to where its controller still is":  {ring.Placement{Shard: "a"}, ring.Placement{Shard: "late", Draining: true}, ring.Assign},
		"a drain that no shard would answer is canceled": {ring.Placement{Shard: "a", Draining: true}, ring.Placement{Shard: "a"}, ring.Assign},
	} {
		t.Run(claim, func(t *testing.T) {
			if action := shardsOf(three).Follow(test.has, test.controller); action != test.action {
				t.Errorf("%s, want %s", action, test.action)
			}
		})
	}
}

func TestObjectThatLeavesRingIsReleasedFirst(t *testing.T) {
	for claim, test := range map[string]struct {
		has        ring.Placement
		controlled bool
		action     ring.Action
	}{
		"one that was never in it":            {ring.Placement{}, false, ring.Keep},
		"one that a shard works on":           {ring.Placement{Shard: "a"}, false, ring.Drain},
		"one that a shard is releasing":       {ring.Placement{Shard: "a", Draining: true}, false, ring.Await},
		"one of a dead shard":                 {ring.Placement{Shard: "gone"}, false, ring.Clear},
		"one that is drained without a shard": {ring.Placement{Draining: true}, false, ring.Clear},
		"one that no object controls":         {ring.Placement{Shard: "a"}, true, ring.Clear},
		"one that none controlled, ever":      {ring.Placement{}, true, ring.Keep},
	} {
		t.Run(claim, func(t *testing.T) {
			if action := shardsOf(three).Leave(test.has, test.controlled); action != test.action {
				t.Errorf("%s, want %s", action, test.action)
			}
		})
	}
}

func TestLabelRemovedWithoutDrainIsRestored(t *testing.T) {
	s := shardsOf(map[string]v1alpha1.ShardState{"a": v1alpha1.ShardReady, "b": v1alpha1.ShardReady, "gone": v1alpha1.ShardDead})
	const key = "object/apps/deployments/shop/web"
	want, _ := s.Owner(key)
	other := map[string]string{"a": "b", "b": "a"}[want]
	for claim, test := range map[string]struct {
		had, has ring.Placement
		shard    string
	}{
		"a new object":      {ring.Placement{}, ring.Placement{}, want},
		"a released object": {ring.Placement{Shard: other, Draining: true}, ring.Placement{Released: true}, want},
		"an object that was released a while ago":  {ring.Placement{Released: true}, ring.Placement{Released: true}, want},
		"an object that was not released":          {ring.Placement{Shard: other}, ring.Placement{}, other},
		"an object that another client wrote":      {ring.Placement{Shard: other, Draining: true}, ring.Placement{}, other},
		"an object whose drain was left":           {ring.Placement{Shard: other, Draining: true}, ring.Placement{Draining: true}, other},
		"an object without a drain request":        {ring.Placement{Shard: other}, ring.Placement{Released: true}, other},
		"an object of a dead shard":                {ring.Placement{Shard: "gone"}, ring.Placement{}, "gone"},
		"an object of an unknown shard":            {ring.Placement{Shard: "new"}, ring.Placement{}, "new"},
		"an object that a dead shard released":     {ring.Placement{Shard: "gone", Draining: true}, ring.Placement{Released: true}, want},
		"an object that an unknown shard released": {ring.Placement{Shard: "new", Draining: true}, ring.Placement{Released: true}, want},
	} {
		if shard, ok := s.Admit(test.had, test.has, key, ring.Load{}); !ok || shard != test.shard {
			t.Errorf("%s: %q, want %q", claim, shard, test.shard)
		}
	}
	if shard, ok := shardsOf(nil).Admit(ring.Placement{}, ring.Placement{}, key, ring.Load{}); ok {
		t.Errorf("without shards: %q", shard)
	}
}

// Whatever happens to shards, an object stays with the shard that should have it after a few steps. It moves from one living shard to
// another only by a drain that the former has acknowledged.
func TestEveryObjectReachesItsShard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := drawShards(t, 1)
		states := map[string]v1alpha1.ShardState{names[0]: v1alpha1.ShardReady}
		for _, name := range names[1:] {
			states[name] = rapid.SampledFrom([]v1alpha1.ShardState{
				v1alpha1.ShardReady, v1alpha1.ShardExpired, v1alpha1.ShardUncertain, v1alpha1.ShardDead, v1alpha1.ShardOrphaned,
			}).Draw(t, "state")
		}
		s := shardsOf(states)
		has := ring.Placement{
			Shard: rapid.SampledFrom(append(names, "", "unknown")).Draw(t, "shard"), Draining: rapid.Bool().Draw(t, "draining"),
		}
		key := rapid.String().Draw(t, "key")
		want, _ := s.Want(key, ring.Load{})
		for range 4 {
			before := has
			switch action := s.Decide(has, want); action {
			case ring.Keep:
				if want := (ring.Placement{Shard: want}); has != want {
					t.Fatalf("at rest at %+v, want %+v", has, want)
				}
				return
			case ring.Assign:
				has = ring.Placement{Shard: want}
			case ring.Drain:
				has.Draining = true
			case ring.Undrain:
				has.Draining = false
			case ring.Await: // the shard acknowledges
				shard, _ := s.Admit(has, ring.Placement{Released: true}, key, ring.Load{})
				has = ring.Placement{Shard: shard}
			default:
				t.Fatalf("%s", action)
			}
			if s.IsAvailable(before.Shard) && has.Shard != before.Shard && !before.Draining {
				t.Fatalf("taken from a living shard: %+v, now %+v", before, has)
			}
		}
		t.Fatalf("not at rest: %+v, want %s", has, want)
	})
}

func TestNoShardExceedsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		states := map[string]v1alpha1.ShardState{}
		for _, name := range drawShards(t, 1) {
			states[name] = v1alpha1.ShardReady
		}
		s, objects := shardsOf(states), rapid.Int64Range(0, 300).Draw(t, "objects")
		load := ring.Load{Of: map[string]int64{}, Limit: ring.Limit(objects, len(states), ptr.To(rapid.Int32Range(101, 300).Draw(t, "percent")))}
		for _, key := range names("key", int(objects)) {
			shard, ok := s.Want(key, load)
			if !ok {
				t.Fatal("no shard has room")
			}
			load.Of[shard]++
			if load.Of[shard] > load.Limit {
				t.Fatalf("%s has %d of at most %d", shard, load.Of[shard], load.Limit)
			}
		}
	})
}

func TestObjectsWithSharedKeyStayTogether(t *testing.T) {
	s := shardsOf(map[string]v1alpha1.ShardState{"a": v1alpha1.ShardReady, "b": v1alpha1.ShardReady, "c": v1alpha1.ShardReady})
	for policy, object := range map[v1alpha1.KeyPolicy]*metav1.ObjectMeta{
		v1alpha1.KeyPolicyNamespace: {Namespace: "shop"},
		v1alpha1.KeyPolicyObject:    {Namespace: "shop", Annotations: map[string]string{v1alpha1.AnnotationShardingKey: "mine"}},
	} {
		load := ring.Load{Limit: 2, Of: map[string]int64{}}
		for _, name := range names("web", 5) {
			object.Name = name
			shard, _ := s.Want(ring.KeyOf(policy, v1alpha1.GroupResource{Resource: "configmaps"}, object), load)
			load.Of[shard]++
		}
		if len(load.Of) != 1 {
			t.Errorf("%s: spread as %v", policy, load.Of)
		}
	}
	load := ring.Load{Limit: 2, Of: map[string]int64{}}
	for _, uid := range names("uid", 5) {
		made := &metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationShardingKey: ring.Generated(uid)}}
		shard, _ := s.Want(ring.KeyOf(v1alpha1.KeyPolicyObject, v1alpha1.GroupResource{}, made), load)
		load.Of[shard]++
	}
	if len(load.Of) != 3 {
		t.Errorf("objects with keys of their own are with %v", load.Of)
	}
}

func TestPlacementOfLabels(t *testing.T) {
	shard, drain := v1alpha1.LabelShard("shops"), v1alpha1.LabelDrain("shops")
	for claim, test := range map[string]struct {
		labels map[string]string
		at     ring.Placement
	}{
		"without a shard":               {nil, ring.Placement{}},
		"with a shard":                  {map[string]string{shard: "a"}, ring.Placement{Shard: "a"}},
		"with one that is asked":        {map[string]string{shard: "a", drain: "true"}, ring.Placement{Shard: "a", Draining: true}},
		"with one that is asked so":     {map[string]string{shard: "a", drain: ""}, ring.Placement{Shard: "a", Draining: true}},
		"with one that says too much":   {map[string]string{shard: "a", drain: "done"}, ring.Placement{Shard: "a", Draining: true}},
		"released":                      {map[string]string{drain: "done"}, ring.Placement{Released: true}},
		"without a shard, with a drain": {map[string]string{drain: "true"}, ring.Placement{Draining: true}},
		"in another ring":               {map[string]string{v1alpha1.LabelShard("x"): "a"}, ring.Placement{}},
	} {
		if at := ring.PlacementOf("shops", test.labels); at != test.at {
			t.Errorf("%s: %+v", claim, at)
		}
	}
}

func TestKeysFollowPolicy(t *testing.T) {
	object := func(namespace, name string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	deployments, sets := v1alpha1.GroupResource{Group: "apps", Resource: "deployments"}, v1alpha1.GroupResource{Group: "apps", Resource: "statefulsets"}
	own := object("shop", "web")
	own.Annotations = map[string]string{v1alpha1.AnnotationShardingKey: "mine"}
	for claim, test := range map[string]struct {
		policy     v1alpha1.KeyPolicy
		a, b       v1alpha1.GroupResource
		of, and    *metav1.ObjectMeta
		isTogether bool
	}{
		"two names":                       {v1alpha1.KeyPolicyObject, deployments, deployments, object("shop", "a"), object("shop", "b"), false},
		"one name in two namespaces":      {v1alpha1.KeyPolicyObject, deployments, deployments, object("shop", "a"), object("bank", "a"), false},
		"one name of two resources":       {v1alpha1.KeyPolicyObject, deployments, sets, object("shop", "a"), object("shop", "a"), false},
		"an object and itself":            {v1alpha1.KeyPolicyObject, deployments, deployments, object("shop", "a"), object("shop", "a"), true},
		"two of a namespace":              {v1alpha1.KeyPolicyNamespace, deployments, sets, object("shop", "a"), object("shop", "b"), true},
		"two of two namespaces":           {v1alpha1.KeyPolicyNamespace, deployments, deployments, object("shop", "a"), object("bank", "a"), false},
		"two of cluster scope":            {v1alpha1.KeyPolicyNamespace, deployments, deployments, object("", "a"), object("", "b"), false},
		"two that say so":                 {v1alpha1.KeyPolicyObject, deployments, sets, own, own, true},
		"two that say so, by a namespace": {v1alpha1.KeyPolicyNamespace, deployments, deployments, own, object("shop", "b"), false},
	} {
		t.Run(claim, func(t *testing.T) {
			a, b := ring.KeyOf(test.policy, test.a, test.of), ring.KeyOf(test.policy, test.b, test.and)
			if (a == b) != test.isTogether {
				t.Errorf("keys %q and %q", a, b)
			}
		})
	}
	if key := ring.KeyOf(v1alpha1.KeyPolicyObject, deployments, object("shop", "")); key != "" {
		t.Errorf("an object without a name yet has key %q", key)
	}
}
