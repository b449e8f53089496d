// Command gpus plays GPUs on a real kubelet. It registers as the device plugin of nvidia.com/gpu; a container that is
// given some finds NVIDIA_VISIBLE_DEVICES with their UUIDs and an nvidia-smi that lists them and no others.
//
//	gpus -folder KUBELET/device-plugins -node NAME -count 8
//
// UUIDs in the file FOLDER/sick, one a line, are unhealthy.
package main

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Prints what nvidia-smi -L and a csv query would, for the GPUs of the container it runs in.
const lister = `#!/bin/sh
position=0
IFS=,
for uuid in $NVIDIA_VISIBLE_DEVICES; do
  case "$1" in
  -L) printf 'GPU %s: NVIDIA H100 80GB HBM3 (UUID: %s)\n' "$position" "$uuid" ;;
  --query-gpu=*) printf '%s, %s, 81559 MiB\n' "$position" "$uuid" ;;
  esac
  position=$((position + 1))
done
if [ "$position" = 0 ]; then echo 'No devices were found'; exit 6; fi
`

type gpus struct {
	v1beta1.UnimplementedDevicePluginServer
	folder string
	uuids  []string
}

func (g *gpus) path(name string) string { return filepath.Join(g.folder, name) }

func (g *gpus) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{}, nil
}

func (g *gpus) ListAndWatch(_ *v1beta1.Empty, to v1beta1.DevicePlugin_ListAndWatchServer) error {
	var told []string
	for tick := time.NewTicker(time.Second); ; {
		text, _ := os.ReadFile(g.path("sick"))
		sick := strings.Fields(string(text))
		if told == nil || !slices.Equal(told, sick) {
			var devices []*v1beta1.Device
			for _, uuid := range g.uuids {
				health := v1beta1.Healthy
				if slices.Contains(sick, uuid) {
					health = v1beta1.Unhealthy
				}
				devices = append(devices, &v1beta1.Device{ID: uuid, Health: health})
			}
			if err := to.Send(&v1beta1.ListAndWatchResponse{Devices: devices}); err != nil {
				return err
			}
			told = append([]string{}, sick...)
		}
		select {
		case <-tick.C:
		case <-to.Context().Done():
			tick.Stop()
			return nil
		}
	}
}

func (g *gpus) Allocate(_ context.Context, wanted *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	var given []*v1beta1.ContainerAllocateResponse
	for _, container := range wanted.ContainerRequests {
		given = append(given, &v1beta1.ContainerAllocateResponse{
			Envs:   map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
			Mounts: []*v1beta1.Mount{{HostPath: g.path("nvidia-smi"), ContainerPath: "/usr/bin/nvidia-smi", ReadOnly: true}},
		})
	}
	return &v1beta1.AllocateResponse{ContainerResponses: given}, nil
}

// register serves the plugin until the kubelet, which removes all sockets when it starts, has removed ours.
func (g *gpus) register() error {
	const name = "gpus.sock"
	_ = os.Remove(g.path(name))
	socket, err := net.Listen("unix", g.path(name))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	defer server.Stop()
	v1beta1.RegisterDevicePluginServer(server, g)
	go func() { _ = server.Serve(socket) }()
	kubelet, err := grpc.NewClient("unix://"+g.path("kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	request := &v1beta1.RegisterRequest{Version: v1beta1.Version, Endpoint: name, ResourceName: "nvidia.com/gpu"}
	if _, err := v1beta1.NewRegistrationClient(kubelet).Register(context.Background(), request); err != nil {
		return err
	}
	for {
		time.Sleep(time.Second)
		if _, err := os.Stat(g.path(name)); err != nil {
			return err
		}
	}
}

func main() {
	folder := flag.String("folder", "/var/lib/kubelet/device-plugins", "the kubelet's folder of device plugins")
	node := flag.String("node", "node", "name of the node; UUIDs follow from it")
	count := flag.Int("count", 8, "how many GPUs")
	flag.Parse()
	seed := fnv.New32a()
	_, _ = seed.Write([]byte(*node))
	g := &gpus{folder: *folder}
	for at := range *count {
		g.uuids = append(g.uuids, fmt.Sprintf("GPU-%08x-0000-4000-8000-%012x", seed.Sum32(), at))
	}
	if err := os.WriteFile(g.path("nvidia-smi"), []byte(lister), 0o755); err != nil {
		log.Fatal(err)
	}
	for ; ; time.Sleep(time.Second) {
		if err := g.register(); err != nil {
			log.Print(err)
		}
	}
}
