package main

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
)

const internalError = http.StatusInternalServerError

// answer is one answer of the API server to the removal of a pod.
type answer struct {
	status int
	took   time.Duration
	ended  time.Time
}

func (a answer) denied() bool { return a.status >= http.StatusBadRequest }

// removal matches the line by which kubectl logs an answer, as of --v=6, if the request is an eviction or the deletion of a pod.
var removal = regexp.MustCompile(
	`I(\d{4} \d\d:\d\d:\d\d\.\d{6}) .*"Response" ` +
		`verb="(?:DELETE" url="\S*/pods/[^/"?]+(?:\?[^"]*)?"|POST" url="\S*/eviction(?:\?[^"]*)?") status="(\d*)[^"]*" (?:headers=.* )?milliseconds=(\d+)`)

// answers returns the answers to removals of pods that kubectl logged.
func answers(log string) []answer {
	var all []answer
	for _, m := range removal.FindAllStringSubmatch(log, -1) {
		status, _ := strconv.Atoi(m[2])                      // 0: no answer
		millis, _ := strconv.Atoi(m[3])                      // digits
		ended, _ := time.Parse("0102 15:04:05.000000", m[1]) // digits
		if status != 0 {
			all = append(all, answer{status: status, took: time.Duration(millis) * time.Millisecond, ended: ended})
		}
	}
	return all
}

// valuesIn counts the chart values that a command sets: the assignments of --set and its variants, and each file of values as one.
func valuesIn(command []string) int {
	if len(command) == 0 || command[0] != "helm" {
		return 0
	}
	count := 0
	for i, argument := range command {
		flag, value, joined := strings.Cut(argument, "=")
		if !joined && i+1 < len(command) {
			value = command[i+1]
		}
		switch flag {
		case "--set", "--set-string", "--set-json", "--set-file", "--set-literal":
			count += 1 + strings.Count(strings.ReplaceAll(value, `\,`, ""), ",")
		case "-f", "--values":
			count++
		}
	}
	return count
}

// user runs commands as a user types them, and remembers them.
type user struct {
	cluster *cluster
	typed   [][]string
}

// run runs a command that counts, and returns its output.
func (u *user) run(ctx context.Context, command ...string) (string, error) {
	u.typed = append(u.typed, command)
	return u.cluster.run(ctx, command...)
}

func (u *user) lines() []string {
	var all []string
	for _, command := range u.typed {
		all = append(all, strings.Join(command, " "))
	}
	return all
}

func (u *user) values() int {
	count := 0
	for _, command := range u.typed {
		count += valuesIn(command)
	}
	return count
}

// run runs helm or kubectl on the cluster, and returns what it printed.
func (c *cluster) run(ctx context.Context, command ...string) (string, error) {
	var built *exec.Cmd
	if command[0] == "helm" {
		var err error
		if built, err = release.Helm(ctx, c.home, command[1:]...); err != nil {
			return "", err
		}
	} else {
		path, err := local.BuiltProgram(command[0])
		if err != nil {
			return "", err
		}
		built = exec.CommandContext(ctx, path, command[1:]...)
		built.Env = []string{"HOME=" + c.home}
	}
	built.Env = append(built.Env, "KUBECONFIG="+c.kubeconfig())
	out, err := built.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, out)
	}
	return string(out), err
}

// removals runs a command of kubectl for at most the time, and returns the answers to its removals of pods. An error of the command is no error, since
// commands are refused.
func (c *cluster) removals(ctx context.Context, limit time.Duration, command ...string) []answer {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, _ := c.run(ctx, slices.Concat(command, []string{"--v=6"})...)
	return answers(out)
}
