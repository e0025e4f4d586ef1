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

// etcd exits when its disk is full, cannot start while it is, and has all acknowledged data afterwards.
func TestEtcdExitsWhenItsDiskIsFull(t *testing.T) {
	if !local.CanFillDisks {
		t.Skip("only Linux can limit a running process")
	}
	f, c := startFederation(t, local.Options{WithoutControllers: true})
	api := clients(t, c).CoreV1().ConfigMaps("default")
	create := func(ctx context.Context, name string) error {
		_, err := api.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"x": strings.Repeat("x", 900_000)},
		}, metav1.CreateOptions{})
		return err
	}
	wantExit := func() {
		t.Helper()
		select {
		case death := <-f.Deaths():
			if death.Component != federation.Etcd || !strings.Contains(death.Tail, syscall.EFBIG.Error()) {
				t.Fatalf("want etcd to exit with %q, got: %v", syscall.EFBIG, death)
			}
		case <-time.After(time.Minute):
			t.Fatal("etcd did not exit within a minute")
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
	wantExit()
	if err := c.Restart(t.Context(), federation.Etcd); err == nil {
		t.Fatal("etcd started although its disk is full")
	}
	wantExit()
	must(t, c.FreeDisk(federation.Etcd))
	must(t, c.Restart(t.Context(), federation.Etcd))
	eventually(t, "stored data still exists", func(ctx context.Context) error {
		for _, name := range kept {
			if _, err := api.Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return create(ctx, fmt.Sprint("later-", time.Now().UnixNano()))
	})

	t.Run("it continues when space is freed before its next write", func(t *testing.T) {
		must(t, c.FillDisk(federation.Etcd))
		must(t, c.FreeDisk(federation.Etcd))
		for i := range 4 {
			must(t, create(t.Context(), fmt.Sprint("more-", i)))
		}
	})
}
