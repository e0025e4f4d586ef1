package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

// reportNode creates a Node whose guard reports a status; nil for a Node without a guard.
func (h *hub) reportNode(name string, status *podhold.Status) {
	h.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if status != nil {
		raw, err := json.Marshal(status)
		h.must(err)
		node.Annotations = map[string]string{podhold.AnnotationStatus: string(raw)}
	}
	h.must(h.Create(h.Context(), node))
	h.Cleanup(func() { _ = h.Delete(context.Background(), node) })
}

func TestNodeStatusAndRelease(t *testing.T) {
	h := newHub(t)
	node, other, bare := h.namespace+"-1", h.namespace+"-2", h.namespace+"-3"
	held := func(name string) podhold.HeldPod {
		return podhold.HeldPod{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Since: metav1.NewTime(time.Now().Add(-2 * time.Minute)), Reason: "its volume scratch belongs to its old UID"}
	}
	h.reportNode(node, &podhold.Status{Version: "v1.2.3", HeldCount: 2, Registered: 3, Held: []podhold.HeldPod{held("db-0"), held("db-1")}})
	h.reportNode(other, &podhold.Status{Version: "v1.2.3", OtherCluster: "the API server belongs to another cluster"})
	h.reportNode(bare, nil)

	out := h.mustRun("node", "status", node, "node/"+other)
	for _, want := range []string{
		"NODE STATE HELD REGISTERED VERSION", node + " holds 2 3 v1.2.3", node + " shop/db-0 2m", "its volume scratch belongs to its old UID",
		other + " otherCluster 0 0 v1.2.3", other + ": the API server belongs to another cluster",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("status of nodes:\n%s\nwant it to contain %q", out, want)
		}
	}
	if all := h.mustRun("node", "status"); !strings.Contains(all, node) || strings.Contains(all, bare) {
		t.Errorf("status of all nodes:\n%s\nwant those with a guard only", all)
	}
	var list struct {
		Nodes []struct {
			Node string
			podhold.Status
		}
	}
	h.must(json.Unmarshal([]byte(h.mustRun("node", "status", node, "-o", "json")), &list))
	if len(list.Nodes) != 1 || list.Nodes[0].Held[1].UID != "uid-db-1" {
		t.Errorf("JSON %+v, want the pods of the annotation", list)
	}

	h.mustRun("node", "release", node, "shop/db-1")
	h.mustRun("node", "release", "node/"+node, "shop/db-0")
	stored := &corev1.Node{}
	h.must(h.Get(t.Context(), objectKey("", node), stored))
	if got := stored.Annotations[podhold.AnnotationRelease]; got != "uid-db-0,uid-db-1" {
		t.Errorf("annotation %q, want the UIDs of both pods", got)
	}
	for _, c := range []struct{ arguments, want string }{
		{"node status " + bare, "no node guard reports on a Node " + bare},
		{"node release " + node + " shop/web-0", "holds no pod shop/web-0; it holds shop/db-0, shop/db-1"},
		{"node release " + bare + " shop/web-0", "holds no pod shop/web-0"},
		{"node release absent-" + node + " shop/web-0", "not found"},
	} {
		if _, _, err := runPlugin(t, "", append(strings.Fields(c.arguments), h.flags...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that says %q", c.arguments, err, c.want)
		}
	}
}
