package sharding_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
	"github.com/breakwater-k8s/breakwater/webhook/sharding"
)

func discardLogger() *log.Logger { return log.New(io.Discard, "", 0) }

// ownerOf returns the shard of a, b and c that owns a key.
func ownerOf(key string) string {
	owner, _ := ring.New([]string{"a", "b", "c"}, 100).Owner(key)
	return owner
}

func TestObjectsAreAssignedWhenStored(t *testing.T) {
	p := newFixture(t, "a", "b", "c")
	p.configure()

	for name, labels := range map[string]map[string]string{"bare": nil, "labeled": {"app": "web", "a.b/c~d": "x"}} {
		widget := p.newWidget(name)
		if widget.SetLabels(map[string]string{}); labels != nil {
			delete(labels, "a.b/c~d")
			widget.SetLabels(labels)
		}
		p.create(widget)
		if got, want := p.shardOf(widget), ownerOf("object/shop.test/widgets/"+p.namespace+"/"+name); got != want {
			t.Errorf("shard of %s is %q, want %q", name, got, want)
		}
		for key, value := range labels {
			if widget.GetLabels()[key] != value {
				t.Errorf("%s has lost the label %s", name, key)
			}
		}
		if widget.GetAnnotations() != nil {
			t.Errorf("%s has annotations: %v", name, widget.GetAnnotations())
		}
	}

	// The write uses another version than the rule.
	old := p.newWidget("old")
	old.SetAPIVersion("shop.test/v1beta1")
	p.create(old)
	if got, want := p.shardOf(old), ownerOf("object/shop.test/widgets/"+p.namespace+"/old"); got != want {
		t.Errorf("shard of an object of an old version is %q, want %q", got, want)
	}

	// namespaceSelector does not apply to cluster-scoped objects. Admission matches a Namespace by its own labels.
	plaza := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "shop.test/v1", "kind": "Plaza"}}
	plaza.SetName(p.namespace)
	p.create(plaza)
	if got, want := p.shardOf(plaza), ownerOf("object/shop.test/plazas//"+p.namespace); got != want {
		t.Errorf("shard of a cluster-scoped object is %q, want %q", got, want)
	}
	itself := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	p.patch(itself, `{"metadata":{"annotations":{"a":"b"}}}`)
	if got, want := p.shardOf(itself), ownerOf("object//namespaces//"+p.namespace); got != want {
		t.Errorf("shard of a Namespace is %q, want %q", got, want)
	}

	// A server-side apply also creates objects.
	applied := p.newWidget("applied")
	if err := p.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("test")); err != nil {
		t.Fatal(err)
	}
	if got := p.shardOf(applied); got == "" {
		t.Error("an applied object has no shard")
	}
	if n := p.resyncCount(); n != 0 {
		t.Errorf("%d resyncs", n)
	}
}

func TestGenerateNameObjectsAreAssigned(t *testing.T) {
	p := newFixture(t, "a", "b", "c")
	p.configure()
	got := map[string]int{}
	for range 50 {
		widget := p.newWidget("")
		widget.SetGenerateName("w-")
		p.create(widget)
		key := widget.GetAnnotations()[v1alpha1.AnnotationShardingKey]
		if shard := p.shardOf(widget); shard == "" || shard != ownerOf(key) || key == "" || !strings.HasPrefix(widget.GetName(), "w-") {
			t.Errorf("shard of %s is %q, key %q", widget.GetName(), shard, key)
		}
		got[p.shardOf(widget)]++
	}
	if len(got) != 3 {
		t.Errorf("objects by shard: %v", got)
	}
}

func TestObjectsMoveInTheWriteThatReleasesThem(t *testing.T) {
	p := newFixture(t, "a", "b", "c")
	p.configure()
	widget := p.newWidget("moving")
	p.create(widget)
	home := p.shardOf(widget)
	next := "b"
	if home == "b" {
		next = "c"
	}
	// Another shard owns its new key: only its label says which shard has it.
	key := "x"
	for ownerOf("shared/"+key) != next {
		key += "x"
	}
	p.patch(widget, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationShardingKey, key)
	wantAt := func(shard, claim string) {
		t.Helper()
		if got := p.shardOf(widget); got != shard {
			t.Errorf("%s: shard %q, want %q", claim, got, shard)
		}
	}
	wantAt(home, "a key that changes")

	p.patch(widget, `{"metadata":{"labels":{%q:null}}}`, v1alpha1.LabelShard(p.ring))
	wantAt(home, "a label that is taken off")

	put := p.newWidget("moving")
	put.SetResourceVersion(widget.GetResourceVersion())
	put.SetAnnotations(widget.GetAnnotations())
	put.Object["spec"] = map[string]any{"size": int64(2)}
	if err := p.Update(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	widget = put
	wantAt(home, "a PUT without labels")

	p.drain(widget)
	put = p.newWidget("moving")
	put.SetResourceVersion(widget.GetResourceVersion())
	put.SetAnnotations(widget.GetAnnotations())
	if err := p.Update(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	widget = put
	asked := ring.Placement{Shard: home, Draining: true}
	if got := ring.PlacementOf(p.ring, widget.GetLabels()); got != asked {
		t.Errorf("PUT without labels during a drain: %+v", got)
	}
	p.release(widget)
	wantAt(next, "a shard that lets go")
	if _, left := widget.GetLabels()[v1alpha1.LabelDrain(p.ring)]; left {
		t.Error("the label by which the former shard released the object is still set")
	}
	// The API server repeats the review when its cache was behind.
	for reason, n := range map[sharding.Reason]int{sharding.PutBack: 3, sharding.Moved: 1} {
		if got := counted(t, p.registry, p.ring, reason); got < n {
			t.Errorf("%d reviews with reason %s, want at least %d", got, reason, n)
		}
	}
}

func (p *fixture) newConfigMap(name string, controller client.Object) *corev1.ConfigMap {
	p.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}}
	if controller != nil {
		kind := controller.GetObjectKind().GroupVersionKind()
		m.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: controller.GetName(), UID: controller.GetUID(), Controller: ptr.To(true),
		}}
	}
	return m
}

func TestControlledObjectsFollowTheirControllers(t *testing.T) {
	p := newFixture(t, "a", "b", "c")
	p.configure()
	for i := range 10 { // so many that they cannot match by chance
		widget := p.newWidget(fmt.Sprint("w-", i))
		p.create(widget)
		controlled := p.newConfigMap(fmt.Sprint("of-w-", i), widget)
		p.create(controlled)
		if got, want := p.shardOf(controlled), p.shardOf(widget); got != want || got == "" {
			t.Errorf("shard %q, want %q of its controller", got, want)
		}
		p.drain(widget)
		late := p.newConfigMap("", widget)
		late.GenerateName = "late-"
		p.create(late)
		if got, want := p.shardOf(late), widget.GetLabels()[v1alpha1.LabelShard(p.ring)]; got != want || late.Annotations != nil {
			t.Errorf("during a drain: shard %q, want %q of its controller; annotations %v", got, want, late.Annotations)
		}
	}
	old := p.newWidget("w-0")
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(old), old); err != nil {
		t.Fatal(err)
	}
	old.SetAPIVersion("shop.test/v1alpha9") // a version that was served once
	byOld := p.newConfigMap("by-old", old)
	p.create(byOld)
	if p.shardOf(byOld) == "" {
		t.Error("an object whose controller is referenced by an old version has no shard")
	}
	namesake := p.newWidget("w-1")
	namesake.SetUID("another")
	stranger := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "nowhere.test/v1", "kind": "Widget"}}
	stranger.SetUID("x")
	stranger.SetName("x")
	for claim, controlled := range map[string]*corev1.ConfigMap{
		"without controller":                       p.newConfigMap("free", nil),
		"another object has the controller's name": p.newConfigMap("of-namesake", namesake),
		"controller of an unknown kind":            p.newConfigMap("of-stranger", stranger),
		"controller was deleted":                   p.newConfigMap("of-gone", func() client.Object { w := p.newWidget("gone"); w.SetUID("g"); return w }()),
	} {
		p.create(controlled)
		if got := p.shardOf(controlled); got != "" {
			t.Errorf("%s: shard %q, want none", claim, got)
		}
	}
	for reason, n := range map[sharding.Reason]int{sharding.NotControlled: 2, sharding.ControllerNotFound: 2, sharding.ControllerUnread: 0} {
		if got := counted(t, p.registry, p.ring, reason); got != n {
			t.Errorf("%d reviews with reason %s, want %d", got, reason, n)
		}
	}
	if n := p.resyncCount(); n != 0 {
		t.Errorf("%d resyncs", n)
	}

	// A controller whose label names no live shard.
	widget := p.newWidget("nowhere")
	widget.SetLabels(map[string]string{v1alpha1.LabelShard(p.ring): "dead"})
	p.create(widget)
	of := p.newConfigMap("of-nowhere", widget)
	p.create(of)
	if got, kicks := p.shardOf(of), p.resyncCount(); got != "" || kicks != 1 {
		t.Errorf("shard %q, %d resyncs", got, kicks)
	}
}

func TestObjectsStoredWithoutShardsAreAssignedLater(t *testing.T) {
	p := newFixture(t)
	p.configure(func(w *admissionregistrationv1.MutatingWebhook) {
		w.Rules[0].Resources = []string{"widgets", "widgets/status"} // the sharder does not do this
	})
	widget := p.newWidget("early")
	p.create(widget)
	if got := p.shardOf(widget); got != "" {
		t.Errorf("shard %q although the ring has no shards", got)
	}
	p.join("a")
	p.eventually(func() string {
		probe := p.newWidget("late")
		if err := p.Create(t.Context(), probe, client.DryRunAll); err != nil {
			return err.Error()
		}
		if p.shardOf(probe) == "" {
			return "the webhook does not know the shard yet"
		}
		return ""
	})
	if err := p.Status().Patch(t.Context(), widget, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Ready"}}`))); err != nil {
		t.Fatal(err)
	}
	if got := p.shardOf(widget); got != "" || counted(t, p.registry, p.ring, sharding.Ignored) != 1 {
		t.Errorf("shard after a status update is %q, %d reviews ignored", got, counted(t, p.registry, p.ring, sharding.Ignored))
	}
	p.patch(widget, `{"spec":{"size":3}}`)
	if got := p.shardOf(widget); got != "a" {
		t.Errorf("shard after an update is %q", got)
	}
}

func TestUnknownRingBlocksNoWrites(t *testing.T) {
	p := newFixture(t, "a")
	p.configure(func(w *admissionregistrationv1.MutatingWebhook) {
		w.ClientConfig.URL = ptr.To("https://127.0.0.1:" + strconv.Itoa(p.port) + "/rings/other")
	})
	widget := p.newWidget("web")
	p.create(widget)
	if got := p.shardOf(widget); got != "" {
		t.Errorf("shard %q", got)
	}
}

// objectWithOddValues contains values that a client library could damage: numbers that are no float, escaped characters, undeclared
// fields.
const objectWithOddValues = `{"big":9007199254740993,"float":1.50,"exp":1e3,"neg":-0.0,"text":"<&>\u2028\u00e9","null":null,"empty":{},"list":[1,"a",null],"deep":{"metadata":{"labels":{"x":"y"}}}}`

func TestOnlyLabelsChange(t *testing.T) {
	p := newFixture(t, "a")
	p.configure()
	elsewhere := testplane.Namespace(t) // the ring's webhook does not apply there
	rest := kubernetes.NewForConfigOrDie(testplane.Config(t)).CoreV1().RESTClient()
	create := func(namespace string) map[string]json.RawMessage {
		body := `{"apiVersion":"shop.test/v1","kind":"Widget","metadata":{"name":"odd","labels":{"app":"w"}},"spec":` + objectWithOddValues + `,"other":` + objectWithOddValues + `}`
		raw, err := rest.Post().AbsPath("/apis/shop.test/v1/namespaces/" + namespace + "/widgets").Body([]byte(body)).DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		object := map[string]json.RawMessage{}
		if err := json.Unmarshal(raw, &object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	got, want := create(p.namespace), create(elsewhere)
	for _, field := range []string{"spec", "other"} {
		if !bytes.Equal(got[field], want[field]) || len(want[field]) == 0 {
			t.Errorf("%s is\n%s, without a ring\n%s", field, got[field], want[field])
		}
	}
	if !bytes.Contains(got["metadata"], []byte(v1alpha1.LabelShard(p.ring))) || len(got) != len(want) {
		t.Errorf("%s, and %d fields, want %d", got["metadata"], len(got), len(want))
	}
}

func TestFaultyServersBlockNoWrites(t *testing.T) {
	p := newFixture(t, "a")
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	const other = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"x","allowed":false}}`
	for claim, url := range map[string]string{
		"closed":                           "https://127.0.0.1:" + strconv.Itoa(freePort(t)) + "/",
		"mute":                             "https://" + mute.Addr().String() + "/",
		"hanging":                          p.serveFaulty(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
		"panicking":                        p.serveFaulty(func(http.ResponseWriter, *http.Request) { panic(errors.New("a fault")) }),
		"failing":                          p.serveFaulty(answer(http.StatusInternalServerError, "")),
		"talking garbage":                  p.serveFaulty(answer(http.StatusOK, "<html>")),
		"answering another review":         p.serveFaulty(answer(http.StatusOK, other)),
		"saying as ours what is malformed": p.serveFaulty(answer(http.StatusBadRequest, "Breakwater cannot read the review")),
		"known by another name":            strings.Replace(p.serveFaulty(answer(http.StatusOK, "")), "127.0.0.1", "localhost", 1),
	} {
		t.Run(claim, func(t *testing.T) {
			configuration := p.configuration(url)
			hook := &configuration.Webhooks[0]
			hook.Name = strings.ReplaceAll(claim, " ", "-") + ".breakwater.dev"
			configuration.Name, hook.TimeoutSeconds = hook.Name, ptr.To[int32](1)
			if err := p.Create(t.Context(), configuration); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = p.Delete(context.Background(), configuration) }()
			p.eventually(func() string {
				widget := p.newWidget("")
				widget.SetGenerateName("w-")
				if err := p.Create(t.Context(), widget); err != nil {
					t.Fatalf("the write was refused: %v", err)
				}
				return p.ignored(hook.Name)
			})
		})
	}
}

// ignored returns "" if the API server has continued without the answer of a webhook, according to its metrics;
// otherwise it returns the problem.
func (p *fixture) ignored(hook string) string {
	raw, err := kubernetes.NewForConfigOrDie(testplane.Config(p)).CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(p.Context())
	if err != nil {
		return err.Error()
	}
	if !strings.Contains(string(raw), `apiserver_admission_webhook_fail_open_count{name="`+hook+`"`) {
		return "the API server does not call webhook " + hook
	}
	return ""
}

func TestStoppedServerBlocksNoWrites(t *testing.T) {
	p := newFixture(t, "a")
	p.configure()
	widget := p.newWidget("before")
	p.create(widget)
	if p.shardOf(widget) != "a" {
		t.Errorf("labels %v", widget.GetLabels())
	}
	p.stop()
	after := p.newWidget("after")
	p.create(after)
	if got := p.shardOf(after); got != "" {
		t.Errorf("shard %q", got)
	}
}

func TestReplacedCertificateIsServed(t *testing.T) {
	p := newFixture(t, "a")
	p.configure()
	served := func() string {
		dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the test only reads the served certificate
		connection, err := dialer.DialContext(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(p.port))
		if err != nil {
			return err.Error()
		}
		defer connection.Close()
		return connection.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := served()
	p.certify()
	p.eventually(func() string {
		if now := served(); now == before {
			return "the server still has the former certificate, of " + filepath.Join(p.files, "tls.crt")
		}
		return ""
	})
}
