package podhold

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func named(name string) Pod {
	return Pod{NamespacedName: types.NamespacedName{Namespace: "shop", Name: name}, UID: types.UID("uid-" + name)}
}

func TestStatusOf(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	got := StatusOf("v1", []Entry{
		{Pod: named("seen")}, {Pod: named("held"), HeldSince: at}, {Pod: named("again"), Registered: "other"}, {Pod: named("begun"), HeldSince: at, Registered: "incomplete"},
	}, map[types.UID]string{"uid-held": strings.Repeat("é", maxReason)}, "of another cluster")
	want := Status{
		Version: "v1", HeldCount: 2, Registered: 1, OtherCluster: "of another cluster", Held: []HeldPod{
			{Namespace: "shop", Name: "held", UID: "uid-held", Since: metav1.NewTime(at), Reason: strings.Repeat("é", maxReason/2) + "..."},
			{Namespace: "shop", Name: "begun", UID: "uid-begun", Since: metav1.NewTime(at)},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || !utf8.ValidString(got.Held[0].Reason) {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestStatusIsBounded(t *testing.T) {
	var pods []Entry
	for i := range 2 * MaxReported {
		pods = append(pods, Entry{Pod: named(fmt.Sprint(i)), HeldSince: time.Unix(1, 0)})
	}
	if got := StatusOf("v1", pods, nil, ""); len(got.Held) != MaxReported || got.HeldCount != len(pods) {
		t.Errorf("status has %d pods and counts %d, want %d and %d", len(got.Held), got.HeldCount, MaxReported, len(pods))
	}
}

func TestReleases(t *testing.T) {
	annotation := WithRelease(WithRelease(WithRelease("", "b"), "a"), "b")
	if annotation != "a,b" {
		t.Errorf("annotation %q, want a,b", annotation)
	}
	if got := Releases(" a, ,b,"); !got["a"] || !got["b"] || len(got) != 2 {
		t.Errorf("releases %v, want a and b", got)
	}
}
