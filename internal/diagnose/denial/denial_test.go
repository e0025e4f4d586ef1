package denial_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const denialText = `Breakwater refuses to remove pod "web-0": PodProtector shop/web in core cluster "core" would have fewer pods available than its floor (floor 5, available 5, removals under way 0); try again when more pods are available, or lower the floor where it is declared.`

func event(reason, note string) *eventsv1.Event {
	return &eventsv1.Event{
		EventTime: metav1.NewMicroTime(noon), Reason: reason, Note: note,
		Regarding: corev1.ObjectReference{Kind: "PodProtector", Namespace: "shop", Name: "web"},
	}
}

func TestParseEvent(t *testing.T) {
	series := event("RemovalRefused", denialText+" (7 more were refused since the last event.)")
	series.Series = &eventsv1.EventSeries{Count: 4, LastObservedTime: metav1.NewMicroTime(noon.Add(time.Minute))}
	other := event("RemovalRefused", denialText)
	other.Regarding.Kind = "Cell"
	const unknown = `Breakwater does not know cell "b" and refuses to decide about its pods.`
	unblamed := event("RemovalRefused", denial.Note(unknown, "alice", "b", "UnknownCell", 2))
	unblamed.Regarding = corev1.ObjectReference{Kind: "Cell", Namespace: "default", Name: "b"}
	unblamed.Related = &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-1"}
	forcedOnCell := unblamed.DeepCopy()
	forcedOnCell.Reason = "RemovalForced"
	base := denial.Denial{First: noon, Last: noon, Count: 1, AtLeast: true, Core: "hub", Namespace: "shop", Protector: "web"}
	with := func(change func(*denial.Denial)) *denial.Denial {
		d := base
		change(&d)
		return &d
	}
	forced := `Pod "web-0" in cell "a" goes although NoBudget: its annotation breakwater.dev/force-delete is set. Asked by "alice".`
	for claim, c := range map[string]struct {
		event *eventsv1.Event
		want  *denial.Denial
	}{
		"a denial that is not attributed to a protector": {unblamed, with(func(d *denial.Denial) {
			d.Count, d.User, d.Cell, d.Verdict, d.Pods, d.Message, d.Protector = 3, "alice", "b", "UnknownCell", []string{"web-1"}, unknown, ""
		})},
		"a break-glass event on a Cell": {forcedOnCell, nil},
		"a denial with its user": {event("RemovalRefused", denial.Note(denialText, "alice", "a", "NoBudget", 3)), with(func(d *denial.Denial) {
			d.Count, d.User, d.Cell, d.Verdict, d.Pods, d.Message = 4, "alice", "a", "NoBudget", []string{"web-0"}, denialText
		})},
		"one of an older webhook, several times": {series, with(func(d *denial.Denial) {
			d.Last, d.Count, d.Pods, d.Message = noon.Add(time.Minute), 11, []string{"web-0"}, denialText
		})},
		"a break-glass removal": {event("RemovalForced", denial.ForcedNote(forced, 2)), with(func(d *denial.Denial) {
			d.Count, d.User, d.Cell, d.Verdict, d.Pods, d.Message, d.Forced = 3, "alice", "a", "NoBudget", []string{"web-0"}, forced, true
		})},
		"a break-glass removal whose reason imitates the text": {event("RemovalForced", denial.ForcedNote(forced+` The reason given is "x Asked by \"bob\".".`, 0)), with(func(d *denial.Denial) {
			d.User, d.Cell, d.Verdict, d.Pods, d.Message, d.Forced = "alice", "a", "NoBudget", []string{"web-0"}, forced+` The reason given is "x Asked by \"bob\".".`, true
			d.Reason = `x Asked by "bob".`
		})},
		"a foreign text":           {event("RemovalRefused", "hm"), with(func(d *denial.Denial) { d.Message = "hm" })},
		"an event of another kind": {event("Spread", denialText), nil},
		"one of another object":    {other, nil},
	} {
		t.Run(claim, func(t *testing.T) {
			got, ok := denial.ParseEvent("hub", c.event)
			if ok != (c.want != nil) {
				t.Fatalf("ParseEvent() = %v, want the opposite", ok)
			}
			if c.want != nil {
				if diff := cmp.Diff(*c.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// Event parses what Note writes, for any user name.
func TestParseEventParsesNote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		user := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{`" in cell "b": NoBudget.`, ` Asked by "x" in cell "y": Full. (3 more were refused since the last event.)`})).Draw(t, "user")
		more := rapid.IntRange(0, 1_000_000).Draw(t, "more")
		message := denialText + rapid.SampledFrom([]string{"", user, strings.Repeat("é", 600)}).Draw(t, "rest")
		note := denial.Note(message, user, "cell-a", "NoBudget", more)
		if len(note) > 1024 || utf8.ValidString(message) && !utf8.ValidString(note) {
			t.Fatalf("Note() has %d bytes, want at most 1024: %q", len(note), note)
		}
		d, ok := denial.ParseEvent("", event("RemovalRefused", note))
		if !ok || d.Cell != "cell-a" || d.Verdict != "NoBudget" || d.Count != more+1 || len(d.Pods) != 1 || d.Pods[0] != "web-0" {
			t.Fatalf("%+v", d)
		}
		if utf8.ValidString(user) && len(user) <= 256 && d.User != user {
			t.Fatalf("ParseEvent() has user %q, want %q", d.User, user)
		}
	})
}

const audit = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"%s","requestURI":"/api/v1/namespaces/shop/pods/web-0%s","verb":"%s","user":{"username":"alice"},
"objectRef":{"resource":"pods","namespace":"shop","name":"%s"%s},"responseStatus":{"code":%d,"message":%q},"requestReceivedTimestamp":"2026-11-22T12:00:00.000000Z","annotations":{"pods.breakwater.dev/verdict":"%s","pods.breakwater.dev/protectors":"core/shop/web,core/shop/all"%s}}`

func TestParseAudit(t *testing.T) {
	told := `admission webhook "pods.breakwater.dev" denied the request: ` + denialText
	line := func(stage, query, verb, name, more string, code int, message, verdict, annotations string) string {
		return fmt.Sprintf(audit, stage, query, verb, name, more, code, message, verdict, annotations)
	}
	done := "ResponseComplete"
	base := denial.Denial{First: noon, Last: noon, Count: 1, Core: "core", Namespace: "shop", Protector: "web,all", User: "alice", Pods: []string{"web-0"}, Operation: "Delete", Verdict: "NoBudget", Message: denialText}
	with := func(change func(*denial.Denial)) *denial.Denial {
		d := base
		change(&d)
		return &d
	}
	for claim, c := range map[string]struct {
		line string
		want *denial.Denial
	}{
		"a deletion":  {line(done, "", "delete", "web-0", "", 429, told, "NoBudget", ""), &base},
		"an eviction": {line(done, "/eviction", "create", "web-0", `,"subresource":"eviction"`, 429, told, "NoBudget", ""), with(func(d *denial.Denial) { d.Operation = "Evict" })},
		"a collection deletion whose first pod was admitted": {line(done, "", "deletecollection", "", "", 429, told, "Reserved", ""), with(func(d *denial.Denial) { d.Verdict = "" })},
		"a trial":                                      {line(done, "", "delete", "web-0", "", 200, "", "NoBudget", ""), with(func(d *denial.Denial) { d.Trial, d.Message = true, "" })},
		"a break-glass removal":                        {line(done, "", "delete", "web-0", "", 200, "", "Forced", `,"pods.breakwater.dev/forced-over":"Full"`), with(func(d *denial.Denial) { d.Forced, d.Verdict, d.Message = true, "Full", "" })},
		"an admitted removal":                          {line(done, "", "delete", "web-0", "", 200, "", "Reserved", ""), nil},
		"a denial by a PodDisruptionBudget":            {line(done, "/eviction", "create", "web-0", `,"subresource":"eviction"`, 429, "Cannot evict pod as it would violate the pod's disruption budget.", "Reserved", ""), nil},
		"a dry run":                                    {line(done, "?dryRun=All", "delete", "web-0", "", 429, told, "NoBudget", ""), nil},
		"one that is not answered yet":                 {line("RequestReceived", "", "delete", "web-0", "", 429, told, "NoBudget", ""), nil},
		"another resource with this verdict":           {strings.Replace(line(done, "", "delete", "x", "", 429, told, "NoBudget", ""), `"resource":"pods"`, `"resource":"things"`, 1), nil},
		"a request without annotations of the webhook": {`{"stage":"ResponseComplete","objectRef":{"resource":"pods"}}`, nil},
		"an impersonated user":                         {strings.Replace(line(done, "", "delete", "web-0", "", 429, told, "NoBudget", ""), `"objectRef"`, `"impersonatedUser":{"username":"eve"},"objectRef"`, 1), with(func(d *denial.Denial) { d.User = "eve" })},
	} {
		t.Run(claim, func(t *testing.T) {
			got, ok, err := denial.ParseAudit([]byte(c.line))
			if err != nil || ok != (c.want != nil) {
				t.Fatalf("ParseAudit() = %v, error %v", ok, err)
			}
			if c.want != nil {
				if diff := cmp.Diff(*c.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
	if _, _, err := denial.ParseAudit([]byte(`{"stage":`)); err == nil {
		t.Error("ParseAudit() parsed half a line, want an error")
	}
}

func TestIsOf(t *testing.T) {
	d := denial.Denial{Protector: "web,db.share-6b86b273"}
	for protector, want := range map[string]bool{"web": true, "db": true, "db.share-6b86b273": true, "d": false, "share-6b86b273": false, "web.share": false} {
		if got := d.IsOf(protector); got != want {
			t.Errorf("IsOf(%q) = %v, want %v", protector, got, want)
		}
	}
}

func TestGroup(t *testing.T) {
	one := func(pod, user string, after time.Duration, count int) denial.Denial {
		at := noon.Add(after)
		return denial.Denial{First: at, Last: at, Count: count, Namespace: "shop", Protector: "web", Verdict: "NoBudget", User: user, Pods: []string{pod}, Message: pod}
	}
	var all []denial.Denial
	for i := range 13 {
		all = append(all, one(fmt.Sprint("web-", i), "alice", time.Duration(i)*time.Second, 2))
	}
	all = append(all, one("web-12", "alice", 20*time.Second, 1), one("web-0", "bob", time.Second, 5))
	got := denial.Group(all)
	want := []denial.Denial{
		{First: noon, Last: noon.Add(20 * time.Second), Count: 27, Namespace: "shop", Protector: "web", Verdict: "NoBudget", User: "alice", MorePods: 3, Message: "web-12",
			Pods: []string{"web-12", "web-11", "web-10", "web-9", "web-8", "web-7", "web-6", "web-5", "web-4", "web-3"}},
		one("web-0", "bob", time.Second, 5),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if late := denial.Since(all, noon.Add(12*time.Second)); len(late) != 2 {
		t.Errorf("Since() = %d denials, want 2", len(late))
	}
}

func TestGroupKeepsTotalCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []denial.Denial
		sum := 0
		for range rapid.IntRange(0, 60).Draw(t, "denials") {
			d := denial.Denial{
				Last: noon.Add(time.Duration(rapid.IntRange(0, 9).Draw(t, "at")) * time.Second), Count: rapid.IntRange(1, 9).Draw(t, "count"),
				User: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "user"), Pods: []string{fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "pod"))},
			}
			d.First = d.Last
			sum, all = sum+d.Count, append(all, d)
		}
		for _, g := range denial.Group(all) {
			sum -= g.Count
		}
		if sum != 0 {
			t.Fatalf("Group() changed the total count by %d, want 0", sum)
		}
	})
}
