package sharding_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
	"github.com/breakwater-k8s/breakwater/webhook/sharding"
)

const reviewUID = "2fd1b6b9-54ef-4c05-a8ba-ae9f1f7d7a51"

// shops returns a ring of Deployments with the ReplicaSets that they control, of Widgets and of Namespaces.
func shops(policy v1alpha1.KeyPolicy) *v1alpha1.ClusterRing {
	of := &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: "shops", UID: "ring"}}
	deployments := v1alpha1.GroupResource{Group: "apps", Resource: "deployments"}
	of.Spec = v1alpha1.ClusterRingSpec{KeyPolicy: policy, Resources: []v1alpha1.RingResource{
		{GroupResource: deployments, ControlledResources: []v1alpha1.GroupResource{{Group: "apps", Resource: "replicasets"}}},
		{GroupResource: v1alpha1.GroupResource{Group: "example.com", Resource: "widgets"}},
		{GroupResource: v1alpha1.GroupResource{Resource: "namespaces"}},
	}}
	return of
}

func shardsOf(states map[string]v1alpha1.ShardState) *ring.Shards { return ring.NewShards(states, 100) }

func twoShards() *ring.Shards {
	return shardsOf(map[string]v1alpha1.ShardState{"a": v1alpha1.ShardReady, "b": v1alpha1.ShardUncertain, "gone": v1alpha1.ShardDead})
}

// asked describes a review; object and old are the metadata of the objects.
type asked struct {
	resource, was string // group/resource
	subresource   string
	operation     admissionv1.Operation
	object, old   string
	namespace     string
	name          string
}

func groupResource(text string) metav1.GroupVersionResource {
	group, resource, _ := strings.Cut(text, "/")
	return metav1.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
}

func (a asked) request() *admissionv1.AdmissionRequest {
	if a.resource == "" {
		a.resource = "apps/deployments"
	}
	if a.operation == "" {
		a.operation = admissionv1.Create
		if a.old != "" {
			a.operation = admissionv1.Update
		}
	}
	request := &admissionv1.AdmissionRequest{
		UID: reviewUID, Resource: groupResource(a.resource), SubResource: a.subresource, Operation: a.operation, Namespace: a.namespace, Name: a.name,
	}
	if a.was != "" {
		was := groupResource(a.was)
		request.RequestResource = &was
	}
	whole := func(text string) runtime.RawExtension {
		if text == "" {
			return runtime.RawExtension{}
		}
		if raw, other := strings.CutPrefix(text, "!"); other {
			return runtime.RawExtension{Raw: []byte(raw)}
		}
		return runtime.RawExtension{Raw: []byte(`{"spec":{"n":1.0,"é":"<&>"},"metadata":{` + text + `}}`)}
	}
	request.Object, request.OldObject = whole(a.object), whole(a.old)
	return request
}

// stored returns the metadata of an object after a patch, applied with the library that API servers use.
func stored(t *testing.T, request *admissionv1.AdmissionRequest, patch []byte) metav1.ObjectMeta {
	t.Helper()
	raw := request.Object.Raw
	if patch != nil {
		changes, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err = changes.Apply(raw); err != nil {
			t.Fatalf("%s does not apply, and so the request is refused: %v", patch, err)
		}
		for _, change := range changes {
			path, err := change.Path()
			if err != nil || !strings.HasPrefix(path, "/metadata/labels") && !strings.HasPrefix(path, "/metadata/annotations") {
				t.Errorf("it changes %s (error %v)", path, err)
			}
		}
	}
	object := metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	return object.ObjectMeta
}

// labelled returns the labels of a placement, as JSON.
func labelled(shard string, draining bool, more ...string) string {
	all := slices.Clone(more)
	if shard != "" {
		all = append(all, `"breakwater.dev/shard-shops":"`+shard+`"`)
	}
	if draining {
		all = append(all, `"breakwater.dev/drain-shops":"true"`)
	}
	return `"labels":{` + strings.Join(all, ",") + `}`
}

// letGo are the labels of an object that its shard has just released.
const letGo = `,"labels":{"breakwater.dev/drain-shops":"done"}`

func TestWhereObjectsOfARingGo(t *testing.T) {
	owner, _ := twoShards().Owner("object/apps/deployments/shop/web")
	other := map[string]string{"a": "b", "b": "a"}[owner]
	ofOther := "x"
	for s, _ := twoShards().Owner("shared/" + ofOther); s != other; s, _ = twoShards().Owner("shared/" + ofOther) {
		ofOther += "x"
	}
	const web = `"namespace":"shop","name":"web"`
	for claim, test := range map[string]struct {
		asked
		reason sharding.Reason
		labels map[string]string // nil: as they were sent
		resync bool
	}{
		"one without labels":             {asked{object: web}, sharding.Assigned, in(owner), false},
		"one with no labels":             {asked{object: web + `,"labels":{}`}, sharding.Assigned, in(owner), false},
		"one whose labels are null":      {asked{object: web + `,"labels":null`}, sharding.Assigned, in(owner), false},
		"one with labels of others":      {asked{object: web + `,"labels":{"app":"web","breakwater.dev/shard-x":"y"}`}, sharding.Assigned, in(owner, "app", "web", "breakwater.dev/shard-x", "y"), false},
		"one with an empty label":        {asked{object: web + `,"labels":{"breakwater.dev/shard-shops":""}`}, sharding.Assigned, in(owner), false},
		"one with a stray drain":         {asked{object: web + "," + labelled("", true)}, sharding.Assigned, in(owner), false},
		"one with a key":                 {asked{object: web + `,"annotations":{"breakwater.dev/sharding-key":"` + ofOther + `"}`}, sharding.Assigned, in(other), false},
		"one that is assigned":           {asked{object: web + "," + labelled(other, false)}, sharding.AlreadyAssigned, nil, false},
		"one that is assigned to nobody": {asked{object: web + "," + labelled("x", true)}, sharding.AlreadyAssigned, nil, false},
		"one that is being deleted": {
			asked{object: web + letGo + `,"deletionTimestamp":"2026-01-01T00:00:00Z"`, old: web + "," + labelled(other, true)}, sharding.Moved, in(owner), false,
		},
		"one that was never assigned":                {asked{object: web, old: web}, sharding.Assigned, in(owner), false},
		"one that was let go":                        {asked{object: web + letGo, old: web + "," + labelled(other, true)}, sharding.Moved, in(owner), false},
		"one that was let go while nobody answered":  {asked{object: web + letGo, old: web + letGo}, sharding.Assigned, in(owner), false},
		"one that says so and was not asked":         {asked{object: web + letGo, old: web + "," + labelled(other, false)}, sharding.PutBack, in(other), false},
		"one whose labels were taken off in a drain": {asked{object: web, old: web + "," + labelled(other, true)}, sharding.PutBack, in(other, "breakwater.dev/drain-shops", "true"), false},
		"one that has other labels, in a drain":      {asked{object: web + `,"labels":{"a":"b"}`, old: web + "," + labelled(other, true)}, sharding.PutBack, in(other, "a", "b", "breakwater.dev/drain-shops", "true"), false},
		"one that was let go and is to stay":         {asked{object: web + letGo, old: web + "," + labelled(owner, true)}, sharding.Assigned, in(owner), false},
		"one whose labels were taken off":            {asked{object: web, old: web + "," + labelled(other, false)}, sharding.PutBack, in(other), false},
		"one whose label was taken off, not drain":   {asked{object: web + "," + labelled("", true), old: web + "," + labelled(other, true)}, sharding.PutBack, in(other, "breakwater.dev/drain-shops", "true"), false},
		"one whose label a drain has replaced":       {asked{object: web + "," + labelled("", true), old: web + "," + labelled(other, false)}, sharding.PutBack, in(other), false},
		"one of a dead shard":                        {asked{object: web, old: web + "," + labelled("gone", false)}, sharding.PutBack, in("gone"), true},
		"one of a shard that nobody knows":           {asked{object: web, old: web + "," + labelled("new", false)}, sharding.PutBack, in("new"), true},
		"one that an unknown shard let go":           {asked{object: web + letGo, old: web + "," + labelled("new", true)}, sharding.Moved, in(owner), false},
		"one of a dead shard that was asked":         {asked{object: web + "," + labelled("", true), old: web + "," + labelled("gone", true)}, sharding.PutBack, in("gone", "breakwater.dev/drain-shops", "true"), true},
		"one of another group's resource":            {asked{resource: "extensions/deployments", object: web}, sharding.NotOfRing, nil, false},
		"one written by an old resource":             {asked{resource: "apps/deployments", was: "extensions/deployments", object: web}, sharding.Assigned, in(owner), false},
		"one that is asked about by an old rule":     {asked{resource: "extensions/deployments", was: "apps/deployments", object: web}, sharding.Assigned, in(owner), false},
		"one named by the request alone":             {asked{object: `"labels":{}`, namespace: "shop", name: "web"}, sharding.Assigned, in(owner), false},
		"a subresource":                              {asked{subresource: "status", object: web, old: web}, sharding.Ignored, nil, false},
		"a deletion":                                 {asked{operation: admissionv1.Delete, object: web, old: web}, sharding.Ignored, nil, false},
		"a connection":                               {asked{operation: admissionv1.Connect, object: web}, sharding.Ignored, nil, false},
		"one without metadata":                       {asked{object: `!{"spec":{}}`}, sharding.Invalid, nil, false},
		"one that is not JSON":                       {asked{object: `!{`}, sharding.Invalid, nil, false},
		"one that is none":                           {asked{}, sharding.Invalid, nil, false},
		"one whose labels are none":                  {asked{object: `"labels":{"a":1}`}, sharding.Invalid, nil, false},
		"one whose state before is not JSON":         {asked{object: web, old: `!{`}, sharding.Invalid, nil, false},
	} {
		t.Run(claim, func(t *testing.T) {
			request := test.request()
			answer, patch := answerTo(t, shops(v1alpha1.KeyPolicyObject), request, func(o *sharding.Object) sharding.Answer { return o.Assign(twoShards(), ring.Load{}) })
			if answer.Reason != test.reason || answer.Resync != test.resync {
				t.Errorf("%s, resync %v; want %s, %v", answer.Reason, answer.Resync, test.reason, test.resync)
			}
			if test.labels == nil {
				if patch != nil {
					t.Errorf("it is changed: %s", patch)
				}
				return
			}
			got := stored(t, request, patch)
			if diff := cmp.Diff(test.labels, got.Labels); diff != "" {
				t.Errorf("want - got +\n%s", diff)
			}
			if answer.Key != "" || len(got.Annotations) != strings.Count(test.object, "annotations") {
				t.Errorf("key %q, annotations %v", answer.Key, got.Annotations)
			}
		})
	}
}

// in returns the labels of an object of a shard, and further labels.
func in(shard string, more ...string) map[string]string {
	labels := map[string]string{"breakwater.dev/shard-shops": shard}
	for pair := range slices.Chunk(more, 2) {
		labels[pair[0]] = pair[1]
	}
	return labels
}

// answerTo returns the answer of Read or, if it finds an object, of decide.
func answerTo(t *testing.T, of *v1alpha1.ClusterRing, request *admissionv1.AdmissionRequest, decide func(*sharding.Object) sharding.Answer) (sharding.Answer, []byte) {
	t.Helper()
	object, reason := sharding.Read(of, request)
	if reason != "" {
		return sharding.Answer{Reason: reason}, nil
	}
	answer := decide(object)
	patch, err := object.Patch(answer)
	if err != nil {
		t.Fatal(err)
	}
	return answer, patch
}

func TestObjectsWithoutANameGetAKey(t *testing.T) {
	object, namespace := v1alpha1.KeyPolicyObject, v1alpha1.KeyPolicyNamespace
	large := strings.Repeat("x", 256<<10-20)
	key := map[string]string{v1alpha1.AnnotationShardingKey: ring.Generated(reviewUID)}
	for claim, test := range map[string]struct {
		policy      v1alpha1.KeyPolicy
		resource    string
		metadata    string
		reason      sharding.Reason
		key         string // by which it is assigned
		annotations map[string]string
	}{
		"one that will be named":                           {object, "", `"namespace":"shop","generateName":"web-"`, sharding.Assigned, ring.Generated(reviewUID), key},
		"one that will be named, with annotations":         {object, "", `"namespace":"shop","generateName":"web-","annotations":{"a":"b"}`, sharding.Assigned, ring.Generated(reviewUID), with(key, "a", "b")},
		"one that will be named, with no annotations":      {object, "", `"namespace":"shop","generateName":"web-","annotations":{}`, sharding.Assigned, ring.Generated(reviewUID), key},
		"one that has a key":                               {object, "", `"namespace":"shop","generateName":"web-","annotations":{"breakwater.dev/sharding-key":"k"}`, sharding.Assigned, "shared/k", map[string]string{v1alpha1.AnnotationShardingKey: "k"}},
		"one with an empty key":                            {object, "", `"namespace":"shop","generateName":"web-","annotations":{"breakwater.dev/sharding-key":""}`, sharding.Assigned, ring.Generated(reviewUID), key},
		"one with a name as well":                          {object, "", `"namespace":"shop","name":"web","generateName":"web-"`, sharding.Assigned, "object/apps/deployments/shop/web", nil},
		"one that goes by its namespace":                   {namespace, "", `"namespace":"shop","generateName":"web-"`, sharding.Assigned, "namespace/shop", nil},
		"one of no namespace, where others go by theirs":   {namespace, "example.com/widgets", `"generateName":"web-"`, sharding.Assigned, ring.Generated(reviewUID), key},
		"a namespace, whose review has its name twice":     {namespace, "/namespaces", `"name":"shop"`, sharding.Assigned, "object//namespaces//shop", nil},
		"one that has no room for it":                      {object, "", `"generateName":"web-","annotations":{"a":"` + large + `"}`, sharding.TooLarge, "", map[string]string{"a": large}},
		"one that has no room, and needs none":             {object, "", `"name":"web","annotations":{"a":"` + large + `"}`, sharding.Assigned, "object/apps/deployments/shop/web", map[string]string{"a": large}},
		"one that has a key in the place of a shorter one": {object, "", `"generateName":"w","annotations":{"a":"` + large + `","breakwater.dev/sharding-key":""}`, sharding.TooLarge, "", map[string]string{"a": large, v1alpha1.AnnotationShardingKey: ""}},
	} {
		t.Run(claim, func(t *testing.T) {
			request := asked{resource: test.resource, object: test.metadata, namespace: "shop"}.request()
			if test.resource == "example.com/widgets" {
				request.Namespace = ""
			}
			shards := shardsOf(map[string]v1alpha1.ShardState{"a": v1alpha1.ShardReady, "b": v1alpha1.ShardReady, "c": v1alpha1.ShardReady, "d": v1alpha1.ShardReady})
			answer, patch := answerTo(t, shops(test.policy), request, func(o *sharding.Object) sharding.Answer { return o.Assign(shards, ring.Load{}) })
			if answer.Reason != test.reason {
				t.Errorf("%s, want %s", answer.Reason, test.reason)
			}
			got, want := stored(t, request, patch), ""
			if test.key != "" {
				want, _ = shards.Owner(test.key)
			}
			if answer.Shard != want {
				t.Errorf("shard %q, want %q", answer.Shard, want)
			}
			if diff := cmp.Diff(test.annotations, got.Annotations); diff != "" {
				t.Errorf("want - got +\n%.300s", diff)
			}
		})
	}
}

func with(of map[string]string, key, value string) map[string]string {
	of = maps.Clone(of)
	of[key] = value
	return of
}

func TestAControlledObjectGoesWhereItsControllerIs(t *testing.T) {
	const set = `"namespace":"shop","name":"web-1"`
	at := func(shard string, draining bool) *ring.Placement {
		return &ring.Placement{Shard: shard, Draining: draining}
	}
	for claim, test := range map[string]struct {
		asked
		controller *ring.Placement // nil: it could not be read
		reason     sharding.Reason
		labels     map[string]string
		resync     bool
	}{
		"to its shard":                         {asked{object: set}, at("a", false), sharding.Assigned, in("a"), false},
		"also while that is drained":           {asked{object: set}, at("b", true), sharding.Assigned, in("b"), false},
		"without a drain":                      {asked{object: set + "," + labelled("", true)}, at("a", false), sharding.Assigned, in("a"), false},
		"back, when its labels were taken off": {asked{object: set, old: set + "," + labelled("a", false)}, at("a", false), sharding.PutBack, in("a"), false},
		"to where its controller is now":       {asked{object: set, old: set + "," + labelled("a", false)}, at("b", false), sharding.Moved, in("b"), false},
		"nowhere before its controller":        {asked{object: set}, at("", false), sharding.ControllerUnassigned, nil, true},
		"nowhere when that has a dead one":     {asked{object: set}, at("gone", false), sharding.ControllerUnassigned, nil, true},
		"where it was, until that is anywhere": {asked{object: set, old: set + "," + labelled("b", false)}, at("", false), sharding.PutBack, in("b"), true},
		"nowhere when that is not read":        {asked{object: set}, nil, sharding.ControllerUnread, nil, true},
		"where it was, when that is not read":  {asked{object: set, old: set + "," + labelled("b", false)}, nil, sharding.PutBack, in("b"), true},
		"where it was, with the drain it has":  {asked{object: set + "," + labelled("", true), old: set + "," + labelled("b", true)}, nil, sharding.PutBack, in("b", "breakwater.dev/drain-shops", "true"), true},
		"nowhere when it was let go":           {asked{object: set + letGo, old: set + "," + labelled("b", true)}, nil, sharding.ControllerUnread, nil, true},
		"where it is, if it is anywhere":       {asked{object: set + "," + labelled("b", false)}, at("a", false), sharding.AlreadyAssigned, nil, false},
	} {
		t.Run(claim, func(t *testing.T) {
			test.resource = "apps/replicasets"
			request := test.request()
			answer, patch := answerTo(t, shops(v1alpha1.KeyPolicyObject), request, func(o *sharding.Object) sharding.Answer {
				if !o.IsControlled() {
					t.Error("it is taken for one of the ring's own")
				}
				if test.controller == nil {
					return o.Stay(sharding.ControllerUnread)
				}
				return o.Follow(twoShards(), *test.controller)
			})
			if answer.Reason != test.reason || answer.Resync != test.resync {
				t.Errorf("%s, resync %v; want %s, %v", answer.Reason, answer.Resync, test.reason, test.resync)
			}
			got := stored(t, request, patch).Labels
			if test.labels == nil && patch != nil || test.labels != nil && !maps.Equal(test.labels, got) {
				t.Errorf("labels %v, patch %s; want %v", got, patch, test.labels)
			}
		})
	}
}

func TestWithoutShardsNothingIsChangedOrAskedFor(t *testing.T) {
	none := shardsOf(map[string]v1alpha1.ShardState{"gone": v1alpha1.ShardDead})
	const web = `"namespace":"shop","name":"web"`
	for _, object := range []string{web, `"generateName":"web-"`, web + "," + labelled("", true)} {
		request := asked{object: object}.request()
		answer, patch := answerTo(t, shops(v1alpha1.KeyPolicyObject), request, func(o *sharding.Object) sharding.Answer { return o.Assign(none, ring.Load{}) })
		if (answer != sharding.Answer{Reason: sharding.NoShards}) || patch != nil {
			t.Errorf("%s: %+v, %s", object, answer, patch)
		}
		request.Resource.Resource = "replicasets"
		answer, patch = answerTo(t, shops(v1alpha1.KeyPolicyObject), request, func(o *sharding.Object) sharding.Answer { return o.Follow(none, ring.Placement{Shard: "gone"}) })
		if (answer != sharding.Answer{Reason: sharding.ControllerUnassigned}) || patch != nil {
			t.Errorf("%s, controlled: %+v, %s", object, answer, patch)
		}
	}
	if _, reason := sharding.Read(nil, asked{object: web}.request()); reason != sharding.UnknownRing {
		t.Errorf("no ring: %s", reason)
	}
}
