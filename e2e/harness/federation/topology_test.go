package federation_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

func TestEmbeddedTopologies(t *testing.T) {
	want := map[string]string{
		"federated": "core(core,0) worker-1(worker,3) worker-2(worker,3)",
		"single":    "main(core+worker,3)",
		"mesh":      "core-1(core,0) core-2(core,0) worker-1(worker,2) worker-2(worker,2) worker-3(worker,2)",
	}
	if diff := cmp.Diff([]string{"federated", "mesh", "single"}, federation.EmbeddedNames()); diff != "" {
		t.Error(diff)
	}
	for name, clusters := range want {
		topology, err := federation.Embedded(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if topology.Name != name || describe(topology) != clusters {
			t.Errorf("%s: got %s: %s, want %s", name, topology.Name, describe(topology), clusters)
		}
	}
}

func describe(topology *federation.Topology) string {
	var clusters []string
	for _, cluster := range topology.Clusters {
		var roles []string
		for _, role := range cluster.Roles {
			roles = append(roles, string(role))
		}
		clusters = append(clusters, cluster.Name+"("+strings.Join(roles, "+")+","+string(rune('0'+cluster.Nodes))+")")
	}
	return strings.Join(clusters, " ")
}

func TestUnknownTopologyErrorListsKnownTopologies(t *testing.T) {
	for _, name := range []string{"nope", "../single", ""} {
		_, err := federation.Embedded(name)
		if err == nil || !strings.Contains(err.Error(), "want federated, mesh, single, or the path of a topology file") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestLoadTopologyReportsEachInvalidField(t *testing.T) {
	const header = "name: test\nclusters:\n"
	const core, worker = "- {name: c, roles: [core]}\n", "- {name: w, roles: [worker], nodes: 1}\n"
	for claim, test := range map[string]struct {
		file string
		want []string
	}{
		"an empty file":       {"# nothing\n", []string{`name: Invalid value: ""`, `clusters: Required value: no cluster has the role core`}},
		"not YAML":            {"name: [\n", []string{`did not find expected node content`}},
		"not a mapping":       {"- a\n", []string{`cannot unmarshal array`}},
		"an unknown field":    {header + core + worker + "color: x\n", []string{`unknown field "color"`}},
		"a field given twice": {"name: a\n" + header + core + worker, []string{`key "name" already set in map`}},
		"a name that is no DNS label": {header + "- {name: A_b, roles: [core, worker], nodes: 1}\n", []string{
			`clusters[0].name: Invalid value: "A_b": a lowercase RFC 1123 label`,
		}},
		"no list":                       {"name: a\nclusters: x\n", []string{`cannot unmarshal string`}},
		"no core":                       {header + worker, []string{`clusters: Required value: no cluster has the role core: want at least one`}},
		"no worker":                     {header + core, []string{`clusters: Required value: no cluster has the role worker: want at least one`}},
		"one name for two clusters":     {header + core + worker + "- {name: c, roles: [core]}\n", []string{`clusters[2].name: Duplicate value: "c"`}},
		"an unknown role":               {header + core + worker + "- {name: x, roles: [wroker]}\n", []string{`clusters[2].roles[0]: Unsupported value: "wroker": supported values: "core", "worker"`}},
		"no roles":                      {header + core + worker + "- {name: x, roles: []}\n", []string{`clusters[2].roles: Required value: want core, worker or both`}},
		"a role twice":                  {header + core + "- {name: w, roles: [worker, worker], nodes: 1}\n", []string{`clusters[1].roles[1]: Duplicate value: "worker"`}},
		"an unknown field of a cluster": {header + core + worker + "- name: x\n  roles: [core]\n  zone: a\n", []string{`unknown field "zone"`}},
		"a worker without nodes":        {header + core + "- {name: w, roles: [worker]}\n", []string{`clusters[1].nodes: Invalid value: 0: a worker needs 1 to 1000 nodes to run pods on`}},
		"a core with nodes":             {header + worker + "- {name: c, roles: [core], nodes: 2}\n", []string{`clusters[1].nodes: Forbidden: only a cluster with the role worker has nodes`}},
		"too many nodes":                {header + core + "- {name: w, roles: [worker], nodes: 1001}\n", []string{`clusters[1].nodes: Invalid value: 1001`}},
		"a fraction of a node":          {header + core + "- {name: w, roles: [worker], nodes: 1.5}\n", []string{`cannot unmarshal number 1.5`}},
		"several errors at once": {"clusters:\n- {name: c, roles: [cor]}\n- {name: c, roles: []}\n", []string{
			`name: Invalid value: ""`, `clusters[0].roles[0]: Unsupported value: "cor"`, `clusters[1].roles: Required value`, `clusters[1].name: Duplicate value: "c"`,
		}},
	} {
		t.Run(claim, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "topology.yaml")
			if err := os.WriteFile(file, []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			topology, err := federation.LoadTopology(file)
			if err == nil {
				t.Fatalf("LoadTopology() accepted it: %+v, want an error", topology)
			}
			for _, want := range append(test.want, file) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %s\ngot %v", want, err)
				}
			}
		})
	}
}

func TestLoadTopologyReadsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "topology.yaml")
	if err := os.WriteFile(file, []byte("name: mine\nclusters:\n- name: all\n  roles: [core, worker]\n  nodes: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := federation.LoadTopology(file)
	if err != nil {
		t.Fatal(err)
	}
	want := &federation.Topology{Name: "mine", Clusters: []federation.ClusterSpec{
		{Name: "all", Roles: []federation.Role{federation.Core, federation.Worker}, Nodes: 7},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := federation.LoadTopology(file + ".not"); err == nil || !strings.Contains(err.Error(), file+".not") {
		t.Errorf("LoadTopology() of a missing file: error %v", err)
	}
}

func FuzzParseTopologyNeverPanics(f *testing.F) {
	f.Add([]byte("name: mine\nclusters:\n- name: all\n  roles: [core, worker]\n  nodes: 7\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("{? [x] : y}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		file := filepath.Join(t.TempDir(), "topology.yaml")
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		topology, err := federation.LoadTopology(file)
		if (topology == nil) == (err == nil) {
			t.Errorf("got %v and %v", topology, err)
		}
	})
}
