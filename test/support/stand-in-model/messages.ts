import type { ServerResponse } from 'node:http';
import { type Asked, type Dialect, event, json, type ToolUse } from './dialect.ts';

interface Request {
  readonly stream?: boolean;
  readonly tools?: readonly { readonly name: string }[];
  readonly messages: readonly {
    readonly content: string | readonly { readonly type: string }[];
  }[];
}

/** The Messages API of Anthropic. */
export const MESSAGES: Dialect = {
  speaks: (path) => path.includes('/v1/messages'),

  read(body): Asked {
    const { tools = [], messages } = JSON.parse(body) as Request;
    const blocks = messages.flatMap(({ content }) => (typeof content === 'string' ? [] : content));
    return {
      offered: tools.map(({ name }) => name),
      results: blocks.filter(({ type }) => type === 'tool_result').map((block) => JSON.stringify(block)),
    };
  },

  write(response: ServerResponse, use: ToolUse | undefined, body: string): void {
    const { results } = this.read(body);
    const block =
      use === undefined ? { type: 'text', text: 'done' } : { type: 'tool_use', id: `toolu_${results.length}`, ...use };
    const message = {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'stand-in',
      content: [block],
      stop_reason: use === undefined ? 'end_turn' : 'tool_use',
      stop_sequence: null,
      usage: { input_tokens: 1, output_tokens: 1 },
    };
    if ((JSON.parse(body) as Request).stream === true) stream(response, message);
    else json(response, message);
  },
};

function stream(response: ServerResponse, message: { content: readonly object[]; stop_reason: string }): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const block = message.content[0] as { type: string; text?: string; input?: object };
  const isText = block.type === 'text';
  event(response, 'message_start', { message: { ...message, content: [], stop_reason: null } });
  event(response, 'content_block_start', {
    index: 0,
    content_block: isText ? { type: 'text', text: '' } : { ...block, input: {} },
  });
  const delta = isText
    ? { type: 'text_delta', text: block.text }
    : { type: 'input_json_delta', partial_json: JSON.stringify(block.input) };
  event(response, 'content_block_delta', { index: 0, delta });
  event(response, 'content_block_stop', { index: 0 });
  event(response, 'message_delta', {
    delta: { stop_reason: message.stop_reason, stop_sequence: null },
    usage: { output_tokens: 1 },
  });
  event(response, 'message_stop', {});
  response.end();
}
