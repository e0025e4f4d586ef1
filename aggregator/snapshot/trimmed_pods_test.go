package snapshot

import (
	"bytes"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/breakwater-k8s/breakwater/aggregator/modes"
	"github.com/breakwater-k8s/breakwater/aggregator/stream"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/largecluster"
)

// watchedObject returns an object as a watch through NewTrimmedPods receives it.
func watchedObject(t *testing.T, object runtime.Object) runtime.Object {
	t.Helper()
	var encoded bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &encoded); err != nil {
		t.Fatal(err)
	}
	raw, err := (&metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: encoded.Bytes()}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	negotiator := runtime.NewClientNegotiator(trimmingSerializers{scheme.Codecs.WithoutConversion()}, corev1.SchemeGroupVersion)
	objects, events, _, err := negotiator.StreamDecoder(runtime.ContentTypeProtobuf, nil)
	if err != nil {
		t.Fatal(err)
	}
	event := &metav1.WatchEvent{}
	if _, _, err := events.Decode(raw, nil, event); err != nil {
		t.Fatal(err)
	}
	if event.Type != "MODIFIED" {
		t.Fatalf("the event has type %q, want MODIFIED", event.Type)
	}
	decoded, err := runtime.Decode(objects, event.Object.Raw)
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

func typed(p *corev1.Pod) *corev1.Pod {
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return p
}

// usedParts is all that the aggregator reads of a pod of its stream.
type usedParts struct {
	Stripped                 pod
	Labels                   map[string]string
	Latest                   time.Time
	Size                     int64
	Name, Namespace, Version string
	UID                      types.UID
	EndsList                 string
}

func usedPartsOf(p *corev1.Pod) usedParts {
	return usedParts{*strip(p), p.Labels, modes.LatestTime(p), stream.SizeOf(p), p.Name, p.Namespace, p.ResourceVersion, p.UID, p.Annotations[metav1.InitialEventsAnnotationKey]}
}

func TestTrimmedPodCountsLikeWholePod(t *testing.T) {
	filler := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), scheme.Codecs).NilChance(0.3).NumElements(0, 4)
	annotations := []map[string]string{
		{v1alpha1.AnnotationCriterion: "Running", "other": "value"}, {"other": "value", v1alpha1.AnnotationForceDelete: "true"},
		{metav1.InitialEventsAnnotationKey: "true"}, {"other": "value"}, nil,
	}
	for i := range 500 {
		p := &corev1.Pod{}
		filler.Fill(p)
		p.Annotations = annotations[i%len(annotations)]
		p.Status.Phase = []corev1.PodPhase{corev1.PodRunning, corev1.PodFailed, corev1.PodPending}[i%3]
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodReady, Status: []corev1.ConditionStatus{"True", "False", "Unknown"}[i/3%3], LastTransitionTime: metav1.Unix(int64(i)*1e6, 0)})
		got, ok := watchedObject(t, typed(p.DeepCopy())).(*corev1.Pod)
		if !ok {
			t.Fatalf("the pod is decoded as a %T", got)
		}
		whole := &corev1.Pod{}
		if raw, err := p.Marshal(); err != nil || whole.Unmarshal(raw) != nil {
			t.Fatal("the pod cannot be encoded and decoded")
		}
		if want, got := usedPartsOf(whole), usedPartsOf(got); !reflect.DeepEqual(want, got) {
			t.Fatalf("trimmed pod %d: %+v, want %+v", i, got, want)
		}
		if len(got.Spec.Containers)+len(got.Spec.Volumes)+len(got.Status.ContainerStatuses)+len(got.ManagedFields) > 0 {
			t.Fatalf("pod %d is not trimmed: %v", i, got)
		}
	}
}

func TestOnlyPodsAreTrimmed(t *testing.T) {
	status := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Message: "too old resource version",
		Reason: metav1.StatusReasonExpired, Code: 410, Details: &metav1.StatusDetails{Name: "pods", RetryAfterSeconds: 1},
	}
	want := status.DeepCopy()
	want.TypeMeta = metav1.TypeMeta{}
	got := watchedObject(t, status)
	got.GetObjectKind().SetGroupVersionKind(want.GroupVersionKind())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Status of an error event (-want +got):\n%s", diff)
	}
}

// No bytes that an API server sends make trimming panic, and an event that ends too early is an error.
func FuzzTrimEvent(f *testing.F) {
	var encoded bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(typed(largecluster.Received(largecluster.Pod(1), 1)), &encoded); err != nil {
		f.Fatal(err)
	}
	event, err := (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: encoded.Bytes()}}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(event)
	f.Add(event[:len(event)/2])
	f.Fuzz(func(t *testing.T, event []byte) {
		whole := slices.Clone(event)
		trimmed, err := trimEvent(event)
		if err != nil {
			return
		}
		if len(trimmed) > len(whole) {
			t.Fatalf("%d bytes are trimmed to %d", len(whole), len(trimmed))
		}
		if (&metav1.WatchEvent{}).Unmarshal(whole) == nil {
			if err := (&metav1.WatchEvent{}).Unmarshal(trimmed); err != nil {
				t.Fatal(fmt.Errorf("the trimmed event cannot be decoded: %w", err))
			}
		}
	})
}
