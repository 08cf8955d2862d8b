// Command controlplane is the real control plane of the tests in one binary: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler, unchanged, chosen by the first argument.
//
// One binary instead of four: the four share most of their packages, and linking is what a warm build
// still costs. Each process runs exactly one of them.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// lifelineVariable names a file descriptor whose other end the parent holds. It reaches its end when the
// parent is gone, however it went (SIGKILL too), and then this process goes the same way. Linux' parent-death
// signal would not do: it fires when the parent's *thread* ends.
const lifelineVariable = "CONTROLPLANE_LIFELINE_FD"

func followParent() {
	fd, err := strconv.Atoi(os.Getenv(lifelineVariable))
	if err != nil {
		return
	}
	go func() {
		buffer := make([]byte, 1)
		for {
			count, err := syscall.Read(fd, buffer)
			if err == syscall.EINTR {
				continue
			}
			if count <= 0 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
	}()
}

func main() {
	followParent()
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler [flags]")
		os.Exit(2)
	}
	component := os.Args[1]
	// The programs read os.Args themselves (flags, and etcd its subcommands).
	os.Args = append([]string{component}, os.Args[2:]...)
	switch component {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	default:
		fmt.Fprintf(os.Stderr, "controlplane: unknown component %q\n", component)
		os.Exit(2)
	}
}
