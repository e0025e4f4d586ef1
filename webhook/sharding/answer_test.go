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

// reviewCase describes a review; object and old are the metadata of the objects.
type reviewCase struct {
	resource, requestedResource string // group/resource
	subresource                 string
	operation                   admissionv1.Operation
	object, old                 string
	namespace                   string
	name                        string
}

func groupResource(text string) metav1.GroupVersionResource {
	group, resource, _ := strings.Cut(text, "/")
	return metav1.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
}

func (a reviewCase) request() *admissionv1.AdmissionRequest {
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
	if a.requestedResource != "" {
		was := groupResource(a.requestedResource)
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
			t.Fatalf("patch %s does not apply: %v", patch, err)
		}
		for _, change := range changes {
			path, err := change.Path()
			if err != nil || !strings.HasPrefix(path, "/metadata/labels") && !strings.HasPrefix(path, "/metadata/annotations") {
				t.Errorf("patch changes %s (error %v), want only labels and annotations", path, err)
			}
		}
	}
	object := metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	return object.ObjectMeta
}

// placementLabels returns the labels of a placement, as JSON.
func placementLabels(shard string, draining bool, more ...string) string {
	all := slices.Clone(more)
	if shard != "" {
		all = append(all, `"breakwater.dev/shard-shops":"`+shard+`"`)
	}
	if draining {
		all = append(all, `"breakwater.dev/drain-shops":"true"`)
	}
	return `"labels":{` + strings.Join(all, ",") + `}`
}

// releasedLabels are the labels of an object that its shard has just released.
const releasedLabels = `,"labels":{"breakwater.dev/drain-shops":"done"}`

func TestAssign(t *testing.T) {
	owner, _ := twoShards().Owner("object/apps/deployments/shop/web")
	other := map[string]string{"a": "b", "b": "a"}[owner]
	ofOther := "x"
	for s, _ := twoShards().Owner("shared/" + ofOther); s != other; s, _ = twoShards().Owner("shared/" + ofOther) {
		ofOther += "x"
	}
	const web = `"namespace":"shop","name":"web"`
	for claim, test := range map[string]struct {
		reviewCase
		reason sharding.Reason
		labels map[string]string // nil: as they were sent
		resync bool
	}{
		"one without labels":        {reviewCase{object: web}, sharding.Assigned, shardLabels(owner), false},
		"one with no labels":        {reviewCase{object: web + `,"labels":{}`}, sharding.Assigned, shardLabels(owner), false},
		"one whose labels are null": {reviewCase{object: web + `,"labels":null`}, sharding.Assigned, shardLabels(owner), false},
		"one with other labels":     {reviewCase{object: web + `,"labels":{"app":"web","breakwater.dev/shard-x":"y"}`}, sharding.Assigned, shardLabels(owner, "app", "web", "breakwater.dev/shard-x", "y"), false},
		"one with an empty label":   {reviewCase{object: web + `,"labels":{"breakwater.dev/shard-shops":""}`}, sharding.Assigned, shardLabels(owner), false},
		"one with a stray drain":    {reviewCase{object: web + "," + placementLabels("", true)}, sharding.Assigned, shardLabels(owner), false},
		"one with a key":            {reviewCase{object: web + `,"annotations":{"breakwater.dev/sharding-key":"` + ofOther + `"}`}, sharding.Assigned, shardLabels(other), false},
		"one that is assigned":      {reviewCase{object: web + "," + placementLabels(other, false)}, sharding.AlreadyAssigned, nil, false},
		"one of a shard that left":  {reviewCase{object: web + "," + placementLabels("x", true)}, sharding.AlreadyAssigned, nil, false},
		"one that is being deleted": {
			reviewCase{object: web + releasedLabels + `,"deletionTimestamp":"2026-01-01T00:00:00Z"`, old: web + "," + placementLabels(other, true)}, sharding.Moved, shardLabels(owner), false,
		},
		"one that was never assigned":                  {reviewCase{object: web, old: web}, sharding.Assigned, shardLabels(owner), false},
		"one that was released":                        {reviewCase{object: web + releasedLabels, old: web + "," + placementLabels(other, true)}, sharding.Moved, shardLabels(owner), false},
		"one released while no webhook answered":       {reviewCase{object: web + releasedLabels, old: web + releasedLabels}, sharding.Assigned, shardLabels(owner), false},
		"one released without having been asked":       {reviewCase{object: web + releasedLabels, old: web + "," + placementLabels(other, false)}, sharding.PutBack, shardLabels(other), false},
		"one whose labels were removed in a drain":     {reviewCase{object: web, old: web + "," + placementLabels(other, true)}, sharding.PutBack, shardLabels(other, "breakwater.dev/drain-shops", "true"), false},
		"one that has other labels, in a drain":        {reviewCase{object: web + `,"labels":{"a":"b"}`, old: web + "," + placementLabels(other, true)}, sharding.PutBack, shardLabels(other, "a", "b", "breakwater.dev/drain-shops", "true"), false},
		"one that was released and is to stay":         {reviewCase{object: web + releasedLabels, old: web + "," + placementLabels(owner, true)}, sharding.Assigned, shardLabels(owner), false},
		"one whose labels were removed":                {reviewCase{object: web, old: web + "," + placementLabels(other, false)}, sharding.PutBack, shardLabels(other), false},
		"one whose shard label was removed, not drain": {reviewCase{object: web + "," + placementLabels("", true), old: web + "," + placementLabels(other, true)}, sharding.PutBack, shardLabels(other, "breakwater.dev/drain-shops", "true"), false},
		"one whose label a drain has replaced":         {reviewCase{object: web + "," + placementLabels("", true), old: web + "," + placementLabels(other, false)}, sharding.PutBack, shardLabels(other), false},
		"one of a dead shard":                          {reviewCase{object: web, old: web + "," + placementLabels("gone", false)}, sharding.PutBack, shardLabels("gone"), true},
		"one of an unknown shard":                      {reviewCase{object: web, old: web + "," + placementLabels("new", false)}, sharding.PutBack, shardLabels("new"), true},
		"one that an unknown shard released":           {reviewCase{object: web + releasedLabels, old: web + "," + placementLabels("new", true)}, sharding.Moved, shardLabels(owner), false},
		"one of a dead shard that was asked":           {reviewCase{object: web + "," + placementLabels("", true), old: web + "," + placementLabels("gone", true)}, sharding.PutBack, shardLabels("gone", "breakwater.dev/drain-shops", "true"), true},
		"one of another group's resource":              {reviewCase{resource: "extensions/deployments", object: web}, sharding.NotOfRing, nil, false},
		"one written by an old resource":               {reviewCase{resource: "apps/deployments", requestedResource: "extensions/deployments", object: web}, sharding.Assigned, shardLabels(owner), false},
		"one reviewed by an old rule":                  {reviewCase{resource: "extensions/deployments", requestedResource: "apps/deployments", object: web}, sharding.Assigned, shardLabels(owner), false},
		"one named by the request alone":               {reviewCase{object: `"labels":{}`, namespace: "shop", name: "web"}, sharding.Assigned, shardLabels(owner), false},
		"a subresource":                                {reviewCase{subresource: "status", object: web, old: web}, sharding.Ignored, nil, false},
		"a deletion":                                   {reviewCase{operation: admissionv1.Delete, object: web, old: web}, sharding.Ignored, nil, false},
		"a connection":                                 {reviewCase{operation: admissionv1.Connect, object: web}, sharding.Ignored, nil, false},
		"one without metadata":                         {reviewCase{object: `!{"spec":{}}`}, sharding.Invalid, nil, false},
		"one that is not JSON":                         {reviewCase{object: `!{`}, sharding.Invalid, nil, false},
		"an empty one":                                 {reviewCase{}, sharding.Invalid, nil, false},
		"one with malformed labels":                    {reviewCase{object: `"labels":{"a":1}`}, sharding.Invalid, nil, false},
		"one whose state before is not JSON":           {reviewCase{object: web, old: `!{`}, sharding.Invalid, nil, false},
	} {
		t.Run(claim, func(t *testing.T) {
			request := test.request()
			answer, patch := answerTo(t, shops(v1alpha1.KeyPolicyObject), request, func(o *sharding.Object) sharding.Answer { return o.Assign(twoShards(), ring.Load{}) })
			if answer.Reason != test.reason || answer.Resync != test.resync {
				t.Errorf("%s, resync %v; want %s, %v", answer.Reason, answer.Resync, test.reason, test.resync)
			}
			if test.labels == nil {
				if patch != nil {
					t.Errorf("patch %s, want none", patch)
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

// shardLabels returns the labels of an object of a shard, and further labels.
func shardLabels(shard string, more ...string) map[string]string {
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

func TestUnnamedObjectsGetShardingKey(t *testing.T) {
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
		"one that will be named, with annotations":         {object, "", `"namespace":"shop","generateName":"web-","annotations":{"a":"b"}`, sharding.Assigned, ring.Generated(reviewUID), withEntry(key, "a", "b")},
		"one that will be named, with no annotations":      {object, "", `"namespace":"shop","generateName":"web-","annotations":{}`, sharding.Assigned, ring.Generated(reviewUID), key},
		"one that has a key":                               {object, "", `"namespace":"shop","generateName":"web-","annotations":{"breakwater.dev/sharding-key":"k"}`, sharding.Assigned, "shared/k", map[string]string{v1alpha1.AnnotationShardingKey: "k"}},
		"one with an empty key":                            {object, "", `"namespace":"shop","generateName":"web-","annotations":{"breakwater.dev/sharding-key":""}`, sharding.Assigned, ring.Generated(reviewUID), key},
		"one with a name as well":                          {object, "", `"namespace":"shop","name":"web","generateName":"web-"`, sharding.Assigned, "object/apps/deployments/shop/web", nil},
		"one keyed by its namespace":                       {namespace, "", `"namespace":"shop","generateName":"web-"`, sharding.Assigned, "namespace/shop", nil},
		"a cluster-scoped one with keys by namespace":      {namespace, "example.com/widgets", `"generateName":"web-"`, sharding.Assigned, ring.Generated(reviewUID), key},
		"a namespace, whose review has its name twice":     {namespace, "/namespaces", `"name":"shop"`, sharding.Assigned, "object//namespaces//shop", nil},
		"one that has no room for it":                      {object, "", `"generateName":"web-","annotations":{"a":"` + large + `"}`, sharding.TooLarge, "", map[string]string{"a": large}},
		"one without room that needs none":                 {object, "", `"name":"web","annotations":{"a":"` + large + `"}`, sharding.Assigned, "object/apps/deployments/shop/web", map[string]string{"a": large}},
		"one that has a key in the place of a shorter one": {object, "", `"generateName":"w","annotations":{"a":"` + large + `","breakwater.dev/sharding-key":""}`, sharding.TooLarge, "", map[string]string{"a": large, v1alpha1.AnnotationShardingKey: ""}},
	} {
		t.Run(claim, func(t *testing.T) {
			request := reviewCase{resource: test.resource, object: test.metadata, namespace: "shop"}.request()
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

func withEntry(of map[string]string, key, value string) map[string]string {
	of = maps.Clone(of)
	of[key] = value
	return of
}

func TestFollow(t *testing.T) {
	const set = `"namespace":"shop","name":"web-1"`
	at := func(shard string, draining bool) *ring.Placement {
		return &ring.Placement{Shard: shard, Draining: draining}
	}
	for claim, test := range map[string]struct {
		reviewCase
		controller *ring.Placement // nil: it could not be read
		reason     sharding.Reason
		labels     map[string]string
		resync     bool
	}{
		"to its shard":                                    {reviewCase{object: set}, at("a", false), sharding.Assigned, shardLabels("a"), false},
		"also while that is drained":                      {reviewCase{object: set}, at("b", true), sharding.Assigned, shardLabels("b"), false},
		"without a drain":                                 {reviewCase{object: set + "," + placementLabels("", true)}, at("a", false), sharding.Assigned, shardLabels("a"), false},
		"back, when its labels were removed":              {reviewCase{object: set, old: set + "," + placementLabels("a", false)}, at("a", false), sharding.PutBack, shardLabels("a"), false},
		"to where its controller is now":                  {reviewCase{object: set, old: set + "," + placementLabels("a", false)}, at("b", false), sharding.Moved, shardLabels("b"), false},
		"nowhere before its controller":                   {reviewCase{object: set}, at("", false), sharding.ControllerUnassigned, nil, true},
		"nowhere when that has a dead one":                {reviewCase{object: set}, at("gone", false), sharding.ControllerUnassigned, nil, true},
		"where it was, until its controller has a shard":  {reviewCase{object: set, old: set + "," + placementLabels("b", false)}, at("", false), sharding.PutBack, shardLabels("b"), true},
		"nowhere when that is not read":                   {reviewCase{object: set}, nil, sharding.ControllerUnread, nil, true},
		"where it was, when its controller is unreadable": {reviewCase{object: set, old: set + "," + placementLabels("b", false)}, nil, sharding.PutBack, shardLabels("b"), true},
		"where it was, with the drain it has":             {reviewCase{object: set + "," + placementLabels("", true), old: set + "," + placementLabels("b", true)}, nil, sharding.PutBack, shardLabels("b", "breakwater.dev/drain-shops", "true"), true},
		"nowhere when it was released":                    {reviewCase{object: set + releasedLabels, old: set + "," + placementLabels("b", true)}, nil, sharding.ControllerUnread, nil, true},
		"where it is, if it has a shard":                  {reviewCase{object: set + "," + placementLabels("b", false)}, at("a", false), sharding.AlreadyAssigned, nil, false},
	} {
		t.Run(claim, func(t *testing.T) {
			test.resource = "apps/replicasets"
			request := test.request()
			answer, patch := answerTo(t, shops(v1alpha1.KeyPolicyObject), request, func(o *sharding.Object) sharding.Answer {
				if !o.IsControlled() {
					t.Error("IsControlled() = false, want true")
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

func TestNoShardsChangeNothing(t *testing.T) {
	none := shardsOf(map[string]v1alpha1.ShardState{"gone": v1alpha1.ShardDead})
	const web = `"namespace":"shop","name":"web"`
	for _, object := range []string{web, `"generateName":"web-"`, web + "," + placementLabels("", true)} {
		request := reviewCase{object: object}.request()
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
	if _, reason := sharding.Read(nil, reviewCase{object: web}.request()); reason != sharding.UnknownRing {
		t.Errorf("Read() without a ring: reason %s, want UnknownRing", reason)
	}
}
