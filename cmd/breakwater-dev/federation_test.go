package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/binaries"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// commandLine runs `breakwater-dev` as a user does: the real program, which starts a supervisor in the background.
type commandLine struct {
	program, dir string
}

func newCommandLine(t *testing.T) *commandLine {
	t.Helper()
	folder := t.TempDir()
	program := filepath.Join(folder, "breakwater-dev")
	for path, source := range map[string]string{program: binaries.BreakwaterDev, filepath.Join(folder, "breakwater"): binaries.Breakwater} {
		if err := binaries.Build(t.Context(), path, source); err != nil {
			t.Fatal(err)
		}
	}
	cli := &commandLine{program: program, dir: filepath.Join(t.TempDir(), "it's mine")}
	t.Cleanup(func() {
		if out, code := cli.run(t, "down"); code != 0 {
			t.Errorf("down: exit code %d\n%s", code, out)
		}
	})
	return cli
}

func (d *commandLine) command(arguments ...string) *exec.Cmd {
	return exec.Command(d.program, append([]string{arguments[0], "--topology=single", "--dir=" + d.dir}, arguments[1:]...)...)
}

func (d *commandLine) run(t *testing.T, arguments ...string) (string, int) {
	t.Helper()
	out, err := d.command(arguments...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

// want runs a command and checks its exit code and output.
func (d *commandLine) want(t *testing.T, code int, says string, arguments ...string) string {
	t.Helper()
	out, got := d.run(t, arguments...)
	if got != code || !regexp.MustCompile(says).MatchString(out) {
		t.Fatalf("%q: exit code %d, want %d and a match of %q:\n%s", arguments, got, code, says, out)
	}
	return out
}

func (d *commandLine) state(t *testing.T) *local.State {
	t.Helper()
	state, err := local.ReadState(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestUpStatusDown(t *testing.T) {
	cli := newCommandLine(t)
	cli.want(t, exitNotRunning, "no federation runs in .* start one with `breakwater-dev up", "status")
	cli.want(t, exitNotRunning, "no federation runs", "env")
	cli.want(t, 0, "No federation runs", "down")

	cli.want(t, 0, `(?s)Starting the federation single with Breakwater: main\..*usable after .*breakwater-dev env`, "up")
	first := cli.state(t)
	cli.want(t, 0, fmt.Sprintf(`already runs in .*process %d`, first.Supervisor.PID), "up")
	cli.want(t, 0, `(?s)federation single: usable.*logs of Breakwater are in .*main +core,worker +https://127.0.0.1:\d+ +kwok +\d+ +running`, "status")

	t.Run("env is what a shell needs", func(t *testing.T) {
		script := `eval "$("$0" env --topology=single --dir="$1")" && kubectl --context main get namespace default -o name`
		out, err := exec.Command("sh", "-c", script, cli.program, cli.dir).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "namespace/default" {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("Breakwater denies removals below the floor", func(t *testing.T) {
		script := `eval "$("$0" env --topology=single --dir="$1")" && set -e
			kubectl create deployment web --image=web --replicas=3
			kubectl label deployment web breakwater.dev/protect=true
			kubectl wait podprotector/deployment-web --for=create --timeout=30s
			kubectl wait podprotector/deployment-web --for=jsonpath={.status.summary.available}=3 --timeout=30s
			kubectl delete pods -l app=web`
		out, err := exec.Command("sh", "-c", script, cli.program, cli.dir).CombinedOutput()
		if err == nil || strings.Count(string(out), "than its floor (floor 3, available 3") != 3 {
			t.Errorf("%v, want three denials:\n%s", err, out)
		}
	})
	t.Run("status shows what is frozen and what is gone", func(t *testing.T) {
		sendSignal(t, component(t, first, "kube-scheduler"), syscall.SIGSTOP)
		sendSignal(t, component(t, first, "kwok"), syscall.SIGKILL)
		await(t, "status to show it", func() error {
			out, _ := cli.run(t, "status")
			if !regexp.MustCompile(`kube-scheduler +\d+ +frozen`).MatchString(out) ||
				!regexp.MustCompile(`kwok +\d+ +not running +-`).MatchString(out) {
				return errors.New(out)
			}
			return nil
		})
	})
	t.Run("down leaves logs and nothing else", func(t *testing.T) {
		cli.want(t, 0, "Stopped the federation", "down")
		wantExited(t, first)
		if log, err := os.ReadFile(filepath.Join(cli.dir, "supervisor.log")); err != nil || !bytes.Contains(log, []byte("kwok of cluster main died")) {
			t.Errorf("supervisor log does not contain the exit of the process: %v\n%s", err, log)
		}
		for _, secret := range []string{"kubeconfig", "breakwater/webhook"} {
			if _, err := os.Stat(filepath.Join(cli.dir, secret)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("stat of %s: %v, want it removed", secret, err)
			}
		}
	})
}

func TestRestartAfterKilledSupervisor(t *testing.T) {
	cli := newCommandLine(t)
	cli.want(t, 0, "without Breakwater: main", "up", "--bare")
	first := cli.state(t)
	sendSignal(t, first.Supervisor, syscall.SIGKILL)
	await(t, "the components to die with it", func() error { return anyRunning(first) })
	cli.want(t, exitNotRunning, "was killed: run `breakwater-dev up.*to clean up", "status")
	cli.want(t, exitNotRunning, "no federation runs", "env")
	cli.want(t, 0, `(?s)cleaning up after it.*usable after`, "up", "--bare")
	cli.want(t, 0, "Breakwater does not run in it", "status")
	second := cli.state(t)
	sendSignal(t, second.Supervisor, syscall.SIGKILL)
	cli.want(t, 0, "Stopped the federation", "down")
	wantExited(t, second)
	cli.want(t, exitNotRunning, "no federation runs", "status")
}

func TestInterruptedUpLeavesNothing(t *testing.T) {
	cli := newCommandLine(t)
	up := cli.command("up")
	var out bytes.Buffer
	up.Stdout, up.Stderr = &out, &out
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	var state *local.State
	await(t, "the first component", func() (err error) {
		if state, err = local.ReadState(cli.dir); err == nil && len(state.Clusters[0].Components) == 0 {
			err = errors.New("none is recorded")
		}
		return err
	})
	if err := up.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := up.Wait(); err == nil || up.ProcessState.ExitCode() != 1 {
		t.Errorf("up exited with %v\n%s", err, out.String())
	}
	wantExited(t, state)
	cli.want(t, exitNotRunning, "no federation runs", "status")
}

func TestUpReportsErrors(t *testing.T) {
	cli := newCommandLine(t)
	cli.want(t, 1, `(?s)kube-apiserver is not in any of the directories.*make`, "up", "--binaries=/nowhere")
	cli.want(t, 1, `--topology: unknown topology "nope": want federated, mesh, single`, "up", "--topology=nope")
	cli.want(t, 1, `--topology: read the topology: open no/such.yaml`, "up", "--topology=no/such.yaml")
}

func component(t *testing.T, state *local.State, name string) local.Process {
	t.Helper()
	for _, component := range state.Clusters[0].Components {
		if string(component.Name) == name {
			return component.Process
		}
	}
	t.Fatalf("component %s not found in %+v", name, state)
	return local.Process{}
}

func sendSignal(t *testing.T, process local.Process, signal syscall.Signal) {
	t.Helper()
	if err := process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

func wantExited(t *testing.T, state *local.State) {
	t.Helper()
	if err := anyRunning(state); err != nil {
		t.Error(err)
	}
}

func anyRunning(state *local.State) error {
	if status := state.Supervisor.Status(); status != local.Gone {
		return fmt.Errorf("the supervisor is %s", status)
	}
	for _, component := range state.Clusters[0].Components {
		if status := component.Process.Status(); status != local.Gone {
			return fmt.Errorf("%s is %s", component.Name, status)
		}
	}
	return nil
}

func await(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.After(time.Minute)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("timed out after a minute waiting for %s; last seen: %v", what, err)
		case <-ticker.C:
		}
	}
}
