package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

// hostile contains characters that would clear the screen, add a line, hide text, and reverse the text direction.
const hostile = "eve\x1b[2J\x1b[8m\x1b]0;t\a\nshop  allowed\r\u009b1A\u202e\u2066\u200b\u2028\u3164\U000e0041"

// wantPrintable checks that an output contains only printable characters and line feeds, and has the given number of lines.
func wantPrintable(t *testing.T, out string, lines int) {
	t.Helper()
	out = plugin.WithoutStyles(out)
	for _, r := range out {
		if r != '\n' && !printable.IsShown(r) {
			t.Errorf("output contains the unprintable character %U: %q", r, out)
			break
		}
	}
	if got := strings.Count(out, "\n"); lines > 0 && got != lines {
		t.Errorf("output has %d lines, want %d:\n%s", got, lines, out)
	}
}

// auditLine returns a line of an audit log about a denied removal.
func auditLine(t testing.TB, user, pod string) string {
	t.Helper()
	line, err := json.Marshal(map[string]any{
		"apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": "delete", "user": map[string]any{"username": user},
		"objectRef":                map[string]any{"resource": "pods", "namespace": "shop", "name": pod},
		"requestReceivedTimestamp": time.Now().UTC().Format(time.RFC3339Nano),
		"responseStatus":           map[string]any{"code": 429, "message": user},
		"annotations": map[string]string{
			"pods.breakwater.dev/verdict": "Full", "pods.breakwater.dev/protectors": "hub/shop/web",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(line) + "\n"
}

func TestAHostileUsernameInAnAuditLog(t *testing.T) {
	for _, format := range []string{"table", "wide", "json", "yaml"} {
		for _, color := range []string{"never", "always"} {
			out, errOut, err := runPlugin(t, auditLine(t, hostile, "web-7"), "denials", "-n", "shop", "--audit-log", "-", "-o", format, "--color", color)
			if err != nil {
				t.Fatal(err)
			}
			lines := map[string]int{"table": 2, "wide": 2}[format]
			wantPrintable(t, out, lines)
			wantPrintable(t, errOut, 0)
			if lines > 0 {
				wantWords(t, out, `eve\u001b[2J\u001b[8m\u001b]0;t\u0007 shop allowed \u009b1A\u202e\u2066\u200b \u3164\U000e0041`)
				continue
			}
			list, read := struct{ Denials []denial.Denial }{}, json.Unmarshal
			if format == "yaml" {
				read = func(text []byte, to any) error { return yaml.Unmarshal(text, to) }
			}
			if err := read([]byte(out), &list); err != nil {
				t.Fatalf("-o %s cannot be read: %v\n%s", format, err, out)
			}
			if len(list.Denials) != 1 || list.Denials[0].User != hostile {
				t.Errorf("-o %s changed the user name: %+v", format, list)
			}
		}
	}
}

func FuzzHostileUsernames(f *testing.F) {
	for _, seed := range []string{"alice", hostile, "- a: b", "\x1b[0m\x1b[1;31m", "\"'{}|", "a\tb"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, user string) {
		user = strings.ToValidUTF8(user, "\ufffd") // JSON strings are valid UTF-8
		if user == "" {
			t.Skip("an audit log without a user")
		}
		line := auditLine(t, user, "web-7")
		show := func(format string) string {
			var out, errOut bytes.Buffer
			root := rootCommand(genericiooptions.IOStreams{In: strings.NewReader(line), Out: &out, ErrOut: &errOut})
			root.SetArgs([]string{"denials", "-n", "shop", "--audit-log", "-", "-o", format, "--color", "always"})
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			wantPrintable(t, errOut.String(), 0)
			return out.String()
		}
		wantPrintable(t, show("wide"), 2)
		out := show("json")
		wantPrintable(t, out, 0)
		list := struct{ Denials []denial.Denial }{}
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if len(list.Denials) != 1 || list.Denials[0].User != user {
			t.Errorf("-o json has %+v, want the user %q", list.Denials, user)
		}
	})
}

func TestHostileTextsOfACoreArePrintable(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 5, func(p *v1alpha1.PodProtector) {
		p.Status.Conditions[0].Status, p.Status.Conditions[0].Message = metav1.ConditionFalse, hostile
		p.Status.Cells[0].Aggregation.Holder = hostile
	})
	h.createDenial("web", "web-0", hostile, 0, time.Second)
	cell := &v1alpha1.Cell{}
	h.must(h.Get(t.Context(), objectKey("", h.cell), cell))
	cell.Status.Aggregator.Holder = hostile
	cell.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionGuarded, Status: "False", Reason: "WebhookMissing", Message: hostile, LastTransitionTime: metav1.Now()}}
	h.must(h.Status().Update(t.Context(), cell))
	const shown = `eve\u001b[2J\u001b[8m`
	for _, arguments := range [][]string{{"status", "web"}, {"status", "web", "-o", "wide"}, {"denials"}, {"denials", "-o", "wide"}, {"cells", h.cell}, {"cells", h.cell, "-o", "wide"}} {
		for _, color := range []string{"never", "always"} {
			out := h.mustRun(append(arguments, "--color", color)...)
			wantPrintable(t, out, 0)
			wantWords(t, out, shown)
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "shop ") {
					t.Errorf("%v: the user name forged a line:\n%s", arguments, out)
				}
			}
		}
	}
	for _, format := range []string{"json", "yaml"} {
		out := h.mustRun("denials", "-o", format)
		wantPrintable(t, out, 0)
		list := struct{ Denials []denial.Denial }{}
		h.must(yaml.Unmarshal([]byte(strings.ReplaceAll(out, `\udb40\udc41`, `\U000e0041`)), &list)) // the YAML parser does not support surrogate pairs
		if len(list.Denials) != 1 || list.Denials[0].User != hostile {
			t.Errorf("-o %s changed the text: %+v", format, list)
		}
	}
}
