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

func TestLoadTopologyReportsFileLineAndFieldOfEachError(t *testing.T) {
	const header = "name: test\nclusters:\n"
	const core, worker = "- {name: c, roles: [core]}\n", "- {name: w, roles: [worker], nodes: 1}\n"
	for claim, test := range map[string]struct {
		file string
		want []string
	}{
		"an empty file":       {"# nothing\n", []string{`:1: the file is empty: want name and clusters`}},
		"not YAML":            {"name: [\n", []string{`did not find expected node content`}},
		"not a mapping":       {"- a\n", []string{`:1: a list: want the fields name, clusters`}},
		"a second document":   {header + core + worker + "---\nname: b\n", []string{`:5: a second document: want one topology in a file`}},
		"an unknown field":    {header + core + worker + "colour: x\n", []string{`:5: colour: unknown field: want one of name, clusters`}},
		"a field given twice": {"name: a\n" + header + core + worker, []string{`:2: name: the field is set twice`}},
		"no name":             {"clusters:\n" + core + worker, []string{`:1: name: missing`}},
		"a name that is a number": {"name: 1\nclusters:\n" + core + worker, []string{
			`:1: name: 1 (int): want a string`,
		}},
		"a name that is no DNS label": {header + "- {name: A_b, roles: [core, worker], nodes: 1}\n", []string{
			`:3: clusters[0].name: "A_b": a lowercase RFC 1123 label`,
		}},
		"no clusters":     {"name: a\n", []string{`:1: clusters: missing`}},
		"an empty list":   {"name: a\nclusters: []\n", []string{`:2: clusters: no cluster has the role core`, `:2: clusters: no cluster has the role worker`}},
		"a list of text":  {"name: a\nclusters: [x]\n", []string{`:2: clusters[0]: x (str): want the fields name, roles, nodes`}},
		"no list":         {"name: a\nclusters: x\n", []string{`:2: clusters: x (str): want a list`}},
		"a missing value": {"name: a\nclusters:\n", []string{`:2: clusters: nothing: want a list`}},
		"no core":         {header + worker, []string{`:3: clusters: no cluster has the role core: want at least one`}},
		"no worker":       {header + core, []string{`:3: clusters: no cluster has the role worker: want at least one`}},
		"one name for two clusters": {header + core + worker + "- {name: c, roles: [core]}\n", []string{
			`:5: clusters[2].name: "c" is already the name of the cluster in line 3`,
		}},
		"an unknown role": {header + core + worker + "- {name: x, roles: [wroker]}\n", []string{
			`:5: clusters[2].roles[0]: unknown role "wroker": want core or worker`,
		}},
		"no roles": {header + core + worker + "- {name: x, roles: []}\n", []string{
			`:5: clusters[2].roles: empty: want core, worker or both`,
		}},
		"a role twice": {header + core + "- {name: w, roles: [worker, worker], nodes: 1}\n", []string{
			`:4: clusters[1].roles[1]: role worker is listed twice`,
		}},
		"an unknown field of a cluster": {header + core + worker + "- name: x\n  roles: [core]\n  zone: a\n", []string{
			`:7: clusters[2].zone: unknown field: want one of name, roles, nodes`,
		}},
		"a worker without nodes": {header + core + "- {name: w, roles: [worker]}\n", []string{
			`:4: clusters[1].nodes: missing: a worker needs 1 to 1000 nodes to run pods on`,
		}},
		"a core with nodes": {header + worker + "- {name: c, roles: [core], nodes: 2}\n", []string{
			`:4: clusters[1].nodes: only a cluster with the role worker has nodes`,
		}},
		"zero nodes": {header + core + "- {name: w, roles: [worker], nodes: 0}\n", []string{
			`:4: clusters[1].nodes: 0: want a whole number from 1 to 1000`,
		}},
		"too many nodes": {header + core + "- {name: w, roles: [worker], nodes: 1001}\n", []string{
			`:4: clusters[1].nodes: 1001: want a whole number from 1 to 1000`,
		}},
		"a fraction of a node": {header + core + "- {name: w, roles: [worker], nodes: 1.5}\n", []string{
			`:4: clusters[1].nodes: 1.5 (float): want a whole number from 1 to 1000`,
		}},
		"an alias": {header + "- &a {name: c, roles: [core]}\n- *a\n" + worker, []string{
			`:4: clusters[1]: an alias: want the fields name, roles, nodes`,
		}},
		"several errors at once": {"clusters:\n- {name: c, roles: [cor]}\n- {name: c, role: [worker]}\n", []string{
			`:1: name: missing`,
			`:2: clusters[0].roles[0]: unknown role "cor"`,
			`:3: clusters[1].role: unknown field`,
			`:3: clusters[1].roles: missing`,
			`:3: clusters[1].name: "c" is already the name of the cluster in line 2`,
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
			for _, want := range test.want {
				if strings.HasPrefix(want, ":") {
					want = file + want
				}
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
