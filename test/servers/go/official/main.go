// A server of the official Go SDK: over stdio, or over Streamable HTTP at the address that it is given.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var waiting atomic.Int32

func text(value string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: value}}}
}

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "go-official", Version: "1"}, nil)
	add := func(name string, handler mcp.ToolHandler) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, handler)
	}
	// The arguments as they arrived, byte for byte.
	add("echo", func(_ context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(string(request.Params.Arguments)), nil
	})
	add("secret", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("the secret tool ran"), nil
	})
	add("progress", func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for step := 1; step <= 2; step++ {
			params := &mcp.ProgressNotificationParams{ProgressToken: request.Params.GetProgressToken(), Progress: float64(step), Total: 2}
			if err := request.Session.NotifyProgress(ctx, params); err != nil {
				return nil, err
			}
		}
		return text("done"), nil
	})
	add("wait", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		waiting.Add(1)
		defer waiting.Add(-1)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	add("waiting", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(fmt.Sprint(waiting.Load())), nil
	})
	add("ask", func(_ context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if answer, ok := request.Params.InputResponses["name"].(*mcp.ElicitResult); ok {
			return text(fmt.Sprintf("%s %v", answer.Action, answer.Content["name"])), nil
		}
		schema := map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}
		ask := &mcp.ElicitParams{Message: "Your name?", RequestedSchema: schema}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"name": ask}}, nil
	})
	add("grow", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		add("grown", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("grown"), nil })
		return text("grows"), nil
	})
	if len(os.Args) < 2 {
		if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			log.Fatal(err)
		}
		return
	}
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	log.Fatal(http.Serve(listener, handler))
}
