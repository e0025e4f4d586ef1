package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestWatchWritesALineForEachChange(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 9, nil)
	ctx, cancel := context.WithCancel(t.Context())
	from, to := io.Pipe()
	root := rootCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: to, ErrOut: io.Discard})
	root.SetArgs(append([]string{"watch"}, h.flags...))
	ended := make(chan error, 1)
	go func() {
		ended <- root.ExecuteContext(ctx)
		_ = to.Close()
	}()
	lines := bufio.NewScanner(from)
	await := func(words string) {
		t.Helper()
		var heard []string
		for lines.Scan() {
			line := strings.Join(strings.Fields(lines.Text()), " ")
			if strings.Contains(line, words) {
				return
			}
			heard = append(heard, line)
		}
		t.Fatalf("no line says %q, only %q", words, heard)
	}
	guard := time.AfterFunc(time.Minute, cancel)
	defer guard.Stop()
	await(h.namespace + "/web available 9 floor 5 under way 0 budget 4 allowed 4 denied 0 ok")
	p := &v1alpha1.PodProtector{}
	h.must(h.Get(t.Context(), objectKey(h.namespace, "web"), p))
	withReservations(4)(p)
	h.must(h.Status().Update(t.Context(), p))
	await("available 9 floor 5 under way 4 budget 0 allowed 0 denied 0 at floor")
	h.createDenial("web", "web-9", "alice", 2, 0)
	await("denied 3 at floor")
	h.must(h.Delete(t.Context(), p))
	await(h.namespace + "/web was deleted")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWatchOfMissingProtector(t *testing.T) {
	h := newHub(t)
	_, _, err := runPlugin(t, "", append([]string{"watch", "web"}, h.flags...)...)
	wantErrors(t, err, []string{"PodProtector " + h.namespace + "/web does not exist"})
}
