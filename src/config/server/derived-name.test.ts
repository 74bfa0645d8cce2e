import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandName, urlName } from './derived-name.ts';

const COMMANDS: readonly [command: string, name: string][] = [
  ['npx -y @modelcontextprotocol/server-everything', 'everything'],
  ['npx -y @scope/server-memory@1.2.3 --flag', 'memory'],
  ['npx some-mcp-server', 'some'],
  ['uvx mcp-server-fetch', 'fetch'],
  ['uv run files.py', 'files'],
  ['node ./dist/index.js', 'index'],
  ['python3 -m my_server', 'my_server'],
  ['/usr/bin/mcp-proxy', 'proxy'],
  ['docker run -i --rm mcp/fetch', 'fetch'],
  ['docker run -i --rm -e NAME ghcr.io/example/server-github:1.2.3 --flag', 'github'],
  ['docker run -i -e NAME=value --name=x -v /a:/b --network host example/files:latest', 'files'],
  ['/usr/bin/podman run --rm -it --env NAME localhost:5000/weather', 'weather'],
  ['dnx Example.Weather@2.0.0 --yes', 'Example.Weather'],
  ['server', 'server'],
  ['npx', 'npx'],
];

for (const [command, name] of COMMANDS) {
  test(`"${command}" is called ${name}`, () => assert.equal(commandName(command.split(' ')), name));
}

test('a name that no server may have is adapted', () => assert.equal(commandName(['./bin/weird name!']), 'weird-name'));

const ADDRESSES: readonly [url: string, name: string | null][] = [
  ['https://mcp.linear.app/mcp', 'linear'],
  ['https://docs.mcp.cloudflare.com/sse', 'cloudflare'],
  ['https://huggingface.co/mcp', 'huggingface'],
  ['https://learn.microsoft.com/api/mcp', 'microsoft'],
  ['https://mcp.example.co.uk/', 'example'],
  ['https://mcp.co.uk/', 'mcp'],
  ['https://weather-mcp.vercel.app/mcp', 'weather'],
  ['https://weather.account.workers.dev/sse', 'weather'],
  ['https://MCP.Example.COM./', 'example'],
  ['http://localhost:3000/mcp', 'localhost-3000'],
  ['http://files/mcp', 'files'],
  ['http://127.0.0.1:3000/mcp', null],
  ['http://[::1]:3000/mcp', null],
];

for (const [url, name] of ADDRESSES) test(`${url} is called ${name}`, () => assert.equal(urlName(url), name));
