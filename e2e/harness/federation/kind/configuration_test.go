package kind

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

func TestNodesOfAConfiguration(t *testing.T) {
	core := federation.ClusterSpec{Name: "core", Roles: []federation.Role{federation.Core}}
	worker := federation.ClusterSpec{Name: "worker", Roles: []federation.Role{federation.Worker}, Nodes: 3}
	for claim, c := range map[string]struct {
		spec  federation.ClusterSpec
		nodes int
		want  string
	}{
		"a core has one node":                           {core, 0, "control-plane"},
		"a core has one node whatever the options":      {core, 2, "control-plane"},
		"a worker has its nodes and a control plane":    {worker, 0, "control-plane worker worker worker"},
		"options override the topology":                 {worker, 2, "control-plane worker worker"},
		"a single node runs the control plane and pods": {worker, 1, "control-plane"},
	} {
		var roles []string
		for _, node := range configuration(v1alpha4.Cluster{}, c.spec, c.nodes).Nodes {
			roles = append(roles, string(node.Role))
		}
		if got := strings.Join(roles, " "); got != c.want {
			t.Errorf("%s: got %s, want %s", claim, got, c.want)
		}
	}
}

func TestPatchIsMergedIntoEveryConfiguration(t *testing.T) {
	const fragment = "kind: KubeletConfiguration\nfailCgroupV1: false\n"
	patch, err := readPatch(file(t, "kubeadmConfigPatches:\n- |\n  kind: KubeletConfiguration\n  failCgroupV1: false\n"))
	if err != nil {
		t.Fatal(err)
	}
	spec := federation.ClusterSpec{Name: "main", Roles: []federation.Role{federation.Core, federation.Worker}, Nodes: 1}
	for range 2 {
		got := configuration(patch, spec, 0)
		if diff := cmp.Diff([]string{fragment}, got.KubeadmConfigPatches); diff != "" || len(got.Nodes) != 1 {
			t.Errorf("%d nodes, patches (-want +got):\n%s", len(got.Nodes), diff)
		}
	}
}

func TestInvalidPatches(t *testing.T) {
	for content, want := range map[string]string{
		"nodes: [{role: worker}]": "set them in the topology",
		"name: mine":              "set them in the topology",
		"kubeadmPatches: []":      "field kubeadmPatches not found",
		"- a":                     "cannot unmarshal",
	} {
		if _, err := readPatch(file(t, content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", content, err, want)
		}
	}
	if _, err := readPatch(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("readPatch() of a missing file returned no error")
	}
	for _, nothing := range []string{"", file(t, "")} {
		if _, err := readPatch(nothing); err != nil {
			t.Errorf("%q: %v", nothing, err)
		}
	}
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "patch.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
