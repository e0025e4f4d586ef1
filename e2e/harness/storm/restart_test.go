package storm_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr/testr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

func TestRecordContinuesAfterAPIServerRestart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*waitTimeout)
	defer cancel()
	topology := &federation.Topology{Name: "one", Clusters: []federation.ClusterSpec{
		{Name: "worker", Roles: []federation.Role{federation.Core, federation.Worker}, Nodes: 1},
	}}
	f, err := local.Start(ctx, topology, local.Options{
		Binaries: filepath.SplitList(os.Getenv(local.BinariesVariable)), Dir: t.TempDir(), Log: testr.New(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	cluster := f.Clusters()[0]
	cell, err := storm.NewCell(cluster.Name(), cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	app := storm.Application{Namespace: "restart", Name: "web", Pods: 4}
	if err := app.DeployBare(ctx, []storm.Cell{cell}); err != nil {
		t.Fatal(err)
	}
	recorder := record(ctx, t, app.Scope([]storm.Cell{cell}), storm.RecorderOptions{})
	waitFor(ctx, t, recorder, 4)

	faults, ok := cluster.(federation.Faults)
	if !ok {
		t.Fatalf("%T does not support faults", cluster)
	}
	if err := faults.Kill(federation.APIServer); err != nil {
		t.Fatal(err)
	}
	if err := faults.Restart(ctx, federation.APIServer); err != nil {
		t.Fatal(err)
	}
	if err := cell.Client.CoreV1().Pods(app.Namespace).Delete(ctx, "web-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(ctx, t, recorder, 3)
	if verdict := storm.Judge(recorder.Stop(), 4); verdict.Removals != 1 || verdict.OverAdmissions != 1 || verdict.FinalAvailable != 3 {
		t.Errorf("want the one removal, which is below the floor of 4, got %+v", verdict)
	}
}
