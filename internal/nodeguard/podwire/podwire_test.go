package podwire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"
)

func anyPod() *rapid.Generator[*corev1.Pod] {
	return rapid.Custom(func(t *rapid.T) *corev1.Pod {
		text := rapid.SampledFrom([]string{"", "a", "<&>", "\u2028é", `"}],`, strings.Repeat("x", 300)})
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: rapid.StringMatching("[a-z]{1,5}").Draw(t, "name"), UID: types.UID(rapid.StringMatching("[0-9a-f]{36}").Draw(t, "uid")),
				Annotations: rapid.MapOfN(rapid.SampledFrom([]string{"items", "kind", "b"}), text, 0, 3).Draw(t, "annotations"),
			},
			Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "app", Args: rapid.SliceOfN(text, 0, 3).Draw(t, "args")}}},
		}
	})
}

// serialized returns an object as an API server sends it. unknown is added as a field that this program does not know.
func serialized(t rapid.TB, f Format, object runtime.Object, kind string, unknown bool) []byte {
	object.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	if f == JSON {
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if unknown {
			raw = append([]byte(`{ "future" : {"items":[1, 2]} ,`+"\n"), raw[1:]...)
		}
		return raw
	}
	var out bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(object, &out); err != nil {
		t.Fatal(err)
	}
	if !unknown {
		return out.Bytes()
	}
	raw, err := unwrap(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	// An unknown field of the object, and one of its envelope.
	wrapped, err := rewrap(out.Bytes(), append(appendBytes(nil, 999, []byte("future")), raw...))
	if err != nil {
		t.Fatal(err)
	}
	return protowire.AppendVarint(protowire.AppendTag(wrapped, 998, protowire.VarintType), 7)
}

func formats() []Format { return []Format{JSON, Protobuf} }

func anyFormat() *rapid.Generator[Format] { return rapid.SampledFrom(formats()) }

// pods returns the pods of a serialized list, as a kubelet reads them.
func pods(t rapid.TB, f Format, body []byte) []corev1.Pod {
	var list corev1.PodList
	if f == JSON {
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		return list.Items
	}
	var envelope runtime.Unknown
	if err := errors.Join(envelope.Unmarshal(bytes.TrimPrefix(body, []byte(magic))), list.Unmarshal(envelope.Raw)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestListsKeepWhatIsNotEdited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFormat().Draw(t, "format")
		var list corev1.PodList
		list.ResourceVersion, list.Items = "7", []corev1.Pod{} // API servers send no null
		for _, p := range rapid.SliceOfN(anyPod(), 0, 4).Draw(t, "pods") {
			list.Items = append(list.Items, *p)
		}
		body := serialized(t, f, &list, "PodList", rapid.Bool().Draw(t, "unknown"))
		before := bytes.Clone(body)
		parsed, err := ParseList(f, body)
		if err != nil {
			t.Fatal(err)
		}
		same, err := parsed.WithItems(parsed.Items())
		if err != nil || !bytes.Equal(same, before) {
			t.Fatalf("the list with its own items is\n%q, want\n%q: %v", same, before, err)
		}

		// Other items: some are left out, and some are new.
		keep := rapid.SliceOfN(rapid.Bool(), len(list.Items), len(list.Items)).Draw(t, "keep")
		var items [][]byte
		var want []corev1.Pod
		for i, item := range parsed.Items() {
			if decoded, err := Decode(f, item); err != nil || !equality.Semantic.DeepEqual(decoded.Spec, list.Items[i].Spec) || decoded.UID != list.Items[i].UID {
				t.Fatalf("item %d is %v, want %v: %v", i, decoded, list.Items[i], err)
			}
			if keep[i] {
				items, want = append(items, item), append(want, list.Items[i])
			}
		}
		added := anyPod().Draw(t, "added")
		raw, err := Encode(f, added)
		if err != nil {
			t.Fatal(err)
		}
		edited, err := parsed.WithItems(append(items, raw))
		if err != nil || !bytes.Equal(body, before) {
			t.Fatalf("WithItems() = %v, and changed what it was given: %v", err, !bytes.Equal(body, before))
		}
		got := pods(t, f, edited)
		if want = append(want, *added); len(got) != len(want) {
			t.Fatalf("%d pods, want %d", len(got), len(want))
		}
		for i := range want {
			if got[i].UID != want[i].UID || !equality.Semantic.DeepEqual(got[i].Spec, want[i].Spec) || !equality.Semantic.DeepEqual(got[i].Annotations, want[i].Annotations) {
				t.Errorf("pod %d (-want +got):\n%s", i, cmp.Diff(want[i], got[i]))
			}
		}
		reparsed, err := ParseList(f, edited)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := reparsed.WithItems(parsed.Items()); err != nil || !bytes.Equal(back, before) {
			t.Fatalf("the list with its own items again is\n%q, want\n%q: %v", back, before, err)
		}
	})
}

func TestListWithoutItemsGetsSome(t *testing.T) {
	raw := map[Format][]byte{JSON: []byte(`{"metadata":{"uid":"a"}}`)}
	var err error
	if raw[Protobuf], err = Encode(Protobuf, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		format Format
		body   string
	}{
		"JSON, empty":                    {JSON, " {} "},
		"JSON, no items":                 {JSON, `{"kind":"PodList","apiVersion":"v1"}`},
		"JSON, null":                     {JSON, `{"items":null,"kind":"PodList"}`},
		"Protobuf without an object":     {Protobuf, magic},
		"Protobuf with an empty object":  {Protobuf, magic + string(appendBytes(nil, unknownRaw, nil))},
		"Protobuf with two raw messages": {Protobuf, magic + string(appendBytes(appendBytes(nil, unknownRaw, appendBytes(nil, listItems, raw[Protobuf])), unknownRaw, nil))},
	} {
		list, err := ParseList(tc.format, []byte(tc.body))
		if err != nil || len(list.Items()) > 0 {
			t.Errorf("%s: ParseList() = %v, %v, want no items", name, list, err)
			continue
		}
		with, err := list.WithItems([][]byte{raw[tc.format]})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := pods(t, tc.format, with); len(got) != 1 || got[0].UID != "a" {
			t.Errorf("%s: pods %v in %q, want one", name, got, with)
		}
	}
}

func TestMalformedLists(t *testing.T) {
	for name, tc := range map[string]struct {
		format Format
		body   string
	}{
		"JSON, nothing":         {JSON, ""},
		"JSON null":             {JSON, "null"},
		"JSON array":            {JSON, `[]`},
		"JSON, cut":             {JSON, `{"items":[{}`},
		"JSON, items no array":  {JSON, `{"items":{}}`},
		"JSON, items twice":     {JSON, `{"items":[],"items":[]}`},
		"JSON, two objects":     {JSON, `{"items":[]}{}`},
		"Protobuf, nothing":     {Protobuf, ""},
		"Protobuf without mark": {Protobuf, "\x0a\x00"},
		"Protobuf, cut":         {Protobuf, magic + "\x12\x05a"},
		"Protobuf, no tag":      {Protobuf, magic + "\x00"},
		"Protobuf, other type":  {Protobuf, magic + "\x10\x01"},
		"Protobuf, item type":   {Protobuf, magic + string(appendBytes(nil, unknownRaw, []byte("\x10\x01")))},
		"Protobuf, cut item":    {Protobuf, magic + string(appendBytes(nil, unknownRaw, []byte("\x12\x09a")))},
	} {
		if list, err := ParseList(tc.format, []byte(tc.body)); err == nil {
			t.Errorf("%s: ParseList() = %v, want an error", name, list)
		}
	}
}

// stream returns events as an API server sends them.
func stream(t rapid.TB, f Format, events []Event) []byte {
	var out []byte
	for _, e := range events {
		raw := serialized(t, f, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(e.Object)}}, "Pod", false)
		if f == JSON {
			out = append(out, fmt.Sprintf("{ \"type\":%q,\"future\":1,\"object\":%s }\n", e.Type, raw)...)
			continue
		}
		frame := appendBytes(appendBytes(nil, eventType, []byte(e.Type)), eventObject, appendBytes(nil, extensionRaw, raw))
		frame = appendBytes(frame, 99, []byte("future"))
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(frame))), frame...) //nolint:gosec // small
	}
	return out
}

func TestEventsKeepWhatIsNotEdited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFormat().Draw(t, "format")
		var want []Event
		for _, kind := range rapid.SliceOf(rapid.SampledFrom([]watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark})).Draw(t, "types") {
			want = append(want, Event{Type: kind, Object: []byte(rapid.StringMatching("[0-9a-f]{36}").Draw(t, "uid"))})
		}
		sent := stream(t, f, want)
		reader := NewReader(f, bytes.NewReader(sent))
		var forwarded []byte
		for i := 0; ; i++ {
			e, err := reader.Next()
			if errors.Is(err, io.EOF) && i == len(want) {
				break
			}
			if err != nil || i >= len(want) || e.Type != want[i].Type || e.IsPod() != (e.Type != watch.Bookmark) {
				t.Fatalf("event %d is %v, want %v: %v", i, e, want, err)
			}
			pod, err := Decode(f, e.Object)
			if err != nil || string(pod.UID) != string(want[i].Object) {
				t.Fatalf("event %d has pod %v, want UID %s: %v", i, pod, want[i].Object, err)
			}
			raw, err := e.Encode(f)
			if err != nil {
				t.Fatal(err)
			}
			forwarded = append(forwarded, raw...)
		}
		if f == JSON { // the API server ends each event with a line break, and so does Encode
			sent, forwarded = bytes.TrimSpace(sent), bytes.TrimSpace(forwarded)
		}
		if !bytes.Equal(sent, forwarded) {
			t.Fatalf("forwarded %q, want %q", forwarded, sent)
		}
	})
}

// A held pod of a list is sent as an event, and read again.
func TestNewEventsAreRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, pod := anyFormat().Draw(t, "format"), anyPod().Draw(t, "pod")
		raw, err := Encode(f, pod.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		if f == JSON && rapid.Bool().Draw(t, "item") { // an item of a list has no kind
			pod.TypeMeta = metav1.TypeMeta{}
			if raw, err = json.Marshal(pod); err != nil {
				t.Fatal(err)
			}
		}
		sent, err := Event{Type: watch.Added, Object: raw}.Encode(f)
		if err != nil {
			t.Fatal(err)
		}
		e, err := NewReader(f, bytes.NewReader(sent)).Next()
		if err != nil || e.Type != watch.Added {
			t.Fatalf("Next() = %v, %v in %q", e, err, sent)
		}
		got, err := Decode(f, e.Object)
		if err != nil || got.UID != pod.UID || !equality.Semantic.DeepEqual(got.Spec, pod.Spec) || !equality.Semantic.DeepEqual(got.Annotations, pod.Annotations) {
			t.Fatalf("read pod %v, want %v: %v", got, pod, err)
		}
		if f == JSON && got.Kind != "Pod" {
			t.Errorf("kind %q in %s, want Pod", got.Kind, sent)
		}
	})
}

func TestMalformedEvents(t *testing.T) {
	frame := func(content string) string {
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(content)))) + content
	} //nolint:gosec // small
	event := func(object string) string {
		return string(appendBytes(appendBytes(nil, eventType, []byte("ADDED")), eventObject, []byte(object)))
	}
	for name, tc := range map[string]struct {
		format Format
		sent   string
	}{
		"JSON, cut":                  {JSON, `{"type":"ADDED"`},
		"JSON array":                 {JSON, `[]`},
		"JSON, type no string":       {JSON, `{"type":1}`},
		"Protobuf, length cut":       {Protobuf, "\x00\x00"},
		"Protobuf, frame cut":        {Protobuf, "\x00\x00\x00\x05a"},
		"Protobuf, frame too long":   {Protobuf, "\xff\xff\xff\xff"},
		"Protobuf, type no text":     {Protobuf, frame("\x08\x01")},
		"Protobuf, object no bytes":  {Protobuf, frame("\x10\x01")},
		"Protobuf, raw no bytes":     {Protobuf, frame(event("\x08\x01"))},
		"Protobuf, pod without mark": {Protobuf, frame(event(string(appendBytes(nil, extensionRaw, []byte("a")))))},
		"Protobuf, pod cut":          {Protobuf, frame(event(string(appendBytes(nil, extensionRaw, []byte(magic+"\x12\x09a")))))},
	} {
		if e, err := NewReader(tc.format, strings.NewReader(tc.sent)).Next(); err == nil {
			t.Errorf("%s: Next() = %+v, want an error", name, e)
		}
	}
	for _, object := range []string{"", "null", "[]", "{", `{"kind":1`} {
		if raw, err := (Event{Type: watch.Added, Object: []byte(object)}).Encode(JSON); err == nil {
			t.Errorf("Encode() of object %q = %q, want an error", object, raw)
		}
	}
}

// damage changes, removes or adds bytes.
func damage(t *rapid.T, text []byte) []byte {
	text = bytes.Clone(text)
	for range rapid.IntRange(1, 4).Draw(t, "faults") {
		at := rapid.IntRange(0, len(text)).Draw(t, "at")
		switch rapid.IntRange(0, 3).Draw(t, "fault") {
		case 0:
			text = text[:at]
		case 1:
			text = slices.Insert(text, at, rapid.SliceOfN(rapid.Byte(), 1, 6).Draw(t, "bytes")...)
		case 2:
			text = slices.Delete(text, at, min(len(text), at+rapid.IntRange(0, 9).Draw(t, "length")))
		default:
			if at < len(text) {
				text[at] = rapid.Byte().Draw(t, "byte")
			}
		}
	}
	return text
}

// What an API server sends can be damaged in every way: the result is an error or something that can be sent, never a panic.
func TestDamagedInputDoesNotPanic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFormat().Draw(t, "format")
		pod := anyPod().Draw(t, "pod")
		body := damage(t, serialized(t, f, &corev1.PodList{Items: []corev1.Pod{*pod, *pod}}, "PodList", rapid.Bool().Draw(t, "unknown")))
		if list, err := ParseList(f, body); err == nil {
			edited, err := list.WithItems(list.Items())
			if err != nil {
				t.Fatalf("a list that was parsed cannot be written: %v", err)
			}
			again, err := ParseList(f, edited)
			if err != nil || len(again.Items()) != len(list.Items()) {
				t.Fatalf("a list that was written cannot be parsed, or has other items: %v in %q", err, edited)
			}
			for _, item := range list.Items() {
				_, _ = Decode(f, item)
			}
		}
		sent := stream(t, f, []Event{{Type: watch.Added, Object: []byte("a")}, {Type: watch.Deleted, Object: []byte("b")}})
		reader := NewReader(f, bytes.NewReader(damage(t, sent)))
		for range 20 {
			e, err := reader.Next()
			if err != nil {
				break
			}
			if _, err := e.Encode(f); err != nil {
				t.Fatalf("an event that was read cannot be forwarded: %v", err)
			}
			_, _ = Event{Type: e.Type, Object: e.Object}.Encode(f)
			_, _ = Decode(f, e.Object)
		}
	})
}

func TestFormatOf(t *testing.T) {
	for contentType, want := range map[string]Format{
		"application/json": JSON, "application/json;stream=watch": JSON, "application/vnd.kubernetes.protobuf;stream=watch": Protobuf,
		"application/vnd.kubernetes.protobuf": Protobuf, "application/cbor": "", "": "", "a;b;": "",
	} {
		if got, err := FormatOf(contentType); got != want || (err == nil) != (want != "") {
			t.Errorf("FormatOf(%q) = %q, %v, want %q", contentType, got, err, want)
		}
	}
}

func TestUIDs(t *testing.T) {
	const a, b = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"
	u := NewUIDs(map[types.UID]types.UID{a: b, "short": b, b: "short"})
	text := []byte("uid=" + a + ",short," + a + a[:35])
	before := string(text)
	want := "uid=" + b + ",short," + b + a[:35]
	if got := string(u.Replace(text)); got != want || string(text) != before {
		t.Errorf("Replace() = %q, want %q", got, want)
	}
	if got := string(u.Inverse().Replace([]byte(want))); got != before {
		t.Errorf("the inverse gives %q, want %q", got, before)
	}
}
