package local_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// etcd ends itself when its disk is full, cannot start while it is, and has all that it said to have once it can.
func TestEtcdDiesOfAFullDisk(t *testing.T) {
	if !local.CanFillDisks {
		t.Skip("only Linux limits a process that runs")
	}
	f, c := startOwn(t, local.Options{WithoutControllers: true})
	api := clients(t, c).CoreV1().ConfigMaps("default")
	create := func(ctx context.Context, name string) error {
		_, err := api.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"x": strings.Repeat("x", 900_000)},
		}, metav1.CreateOptions{})
		return err
	}
	diesOfIt := func() {
		t.Helper()
		select {
		case death := <-f.Deaths():
			if death.Component != federation.Etcd || !strings.Contains(death.Tail, syscall.EFBIG.Error()) {
				t.Fatalf("want a death of etcd by %q, got: %v", syscall.EFBIG, death)
			}
		case <-time.After(time.Minute):
			t.Fatal("etcd did not die in a minute")
		}
	}
	must(t, c.FillDisk(federation.Etcd))
	var kept []string
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		name := fmt.Sprint("kept-", i)
		err := create(ctx, name)
		cancel()
		if err != nil {
			break
		}
		kept = append(kept, name)
	}
	diesOfIt()
	if err := c.Restart(t.Context(), federation.Etcd); err == nil {
		t.Fatal("etcd starts although its disk is full")
	}
	diesOfIt()
	must(t, c.FreeDisk(federation.Etcd))
	must(t, c.Restart(t.Context(), federation.Etcd))
	eventually(t, "what was stored is there", func(ctx context.Context) error {
		for _, name := range kept {
			if _, err := api.Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return create(ctx, fmt.Sprint("later-", time.Now().UnixNano()))
	})

	t.Run("it goes on when there is room before it has written more", func(t *testing.T) {
		must(t, c.FillDisk(federation.Etcd))
		must(t, c.FreeDisk(federation.Etcd))
		for i := range 4 {
			must(t, create(t.Context(), fmt.Sprint("more-", i)))
		}
	})
}
