/**
 * A host of MCP Apps in a browser, as small as one can be: one client of one endpoint, and for every tool that is called an
 * `AppBridge` of the official SDK with its app in a frame. As the specification requires, a call of an app goes on only
 * for a tool that the server lists, and that apps may call.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { AppBridge, getToolUiResourceUri, PostMessageTransport } from '@modelcontextprotocol/ext-apps/app-bridge';

const HOST = { name: 'app-host', version: '1' };
const APP_TYPE = 'text/html;profile=mcp-app';

const client = new Client(HOST, {
  capabilities: { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: [APP_TYPE] } } },
});
let tools = new Map();

/** The state of the apps, by tool. */
window.apps = {};

window.connect = (url) => client.connect(new StreamableHTTPClientTransport(new URL(url)));

window.listTools = async () => {
  tools = new Map((await client.listTools()).tools.map((tool) => [tool.name, tool]));
  return [...tools.keys()];
};

window.openApp = async (name, input, sandboxUrl) => {
  const tool = tools.get(name);
  const uri = getToolUiResourceUri(tool);
  const app = { uri, requests: [], initialized: false, messages: [] };
  window.apps[name] = app;
  const { contents } = await client.readResource({ uri });
  app.contentUri = contents[0].uri;
  const frame = document.createElement('iframe');
  frame.name = name;
  frame.style = 'width: 800px; height: 600px';
  frame.setAttribute('sandbox', 'allow-scripts allow-same-origin allow-forms');
  const bridge = new AppBridge(
    forwarding(app),
    HOST,
    { serverTools: {}, serverResources: {}, openLinks: {}, logging: {} },
    {
      hostContext: { toolInfo: { tool }, theme: 'light', displayMode: 'inline', availableDisplayModes: ['inline'] },
    },
  );
  const initialized = new Promise((done) => {
    bridge.oninitialized = done;
  });
  bridge.onmessage = async () => ({});
  bridge.onopenlink = async () => ({});
  bridge.onupdatemodelcontext = async () => ({});
  bridge.onrequestdisplaymode = async () => ({ mode: 'inline' });
  bridge.onloggingmessage = ({ data }) => app.messages.push(data);
  const ready = new Promise((done) => {
    window.addEventListener('message', ({ source, data }) => {
      if (source === frame.contentWindow && data?.method === 'ui/notifications/sandbox-proxy-ready') done();
    });
  });
  frame.src = sandboxUrl;
  document.body.append(frame);
  await ready;
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  await bridge.sendSandboxResourceReady({ html: contents[0].text ?? decoded(contents[0].blob) });
  await initialized;
  app.initialized = true;
  await bridge.sendToolInput({ arguments: input });
  app.result = await client.callTool({ name, arguments: input });
  await bridge.sendToolResult(app.result);
};

/** The client for one app's bridge; it records the app's requests to the server and their results. */
function forwarding(app) {
  const request = async (message, ...rest) => {
    const noted = { method: message.method, params: message.params };
    app.requests.push(noted);
    try {
      if (message.method === 'tools/call') refuseForeign(message.params.name);
      noted.result = await client.request(message, ...rest);
      return noted.result;
    } catch (error) {
      noted.error = String(error);
      throw error;
    }
  };
  return new Proxy(client, {
    get: (_, key) => {
      if (key === 'request') return request;
      const value = client[key];
      return typeof value === 'function' ? value.bind(client) : value;
    },
  });
}

function decoded(blob) {
  return new TextDecoder().decode(Uint8Array.from(atob(blob), (character) => character.charCodeAt(0)));
}

function refuseForeign(name) {
  const tool = tools.get(name);
  if (tool === undefined) throw new Error(`the server lists no tool ${name}`);
  const visibility = tool._meta?.ui?.visibility;
  if (visibility !== undefined && !visibility.includes('app')) throw new Error(`apps may not call ${name}`);
}
