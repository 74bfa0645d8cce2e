import { type Dialect, event } from './dialect.ts';

interface Tool {
  readonly type: string;
  readonly name?: string;
  /** The tools of a namespace. */
  readonly tools?: readonly { readonly name: string }[];
}

interface Request {
  readonly tools?: readonly Tool[];
  readonly input: readonly { readonly type: string }[];
}

/** Between a namespace and the name of a tool in it. */
const SEPARATOR = '/';

/** The Responses API of OpenAI, streamed. A tool in a namespace is named `{namespace}/{name}` here. */
export const RESPONSES: Dialect = {
  speaks: (path) => path.includes('/responses'),

  read(body) {
    const { tools = [], input } = JSON.parse(body) as Request;
    return {
      offered: tools.flatMap(({ type, name, tools: inside = [] }) =>
        type === 'namespace' ? inside.map((tool) => `${name}${SEPARATOR}${tool.name}`) : [name ?? type],
      ),
      results: input.filter(({ type }) => type === 'function_call_output').map((item) => JSON.stringify(item)),
    };
  },

  write(response, use, body) {
    const { results } = this.read(body);
    const id = `resp_${results.length}`;
    const [name, namespace] = (use?.name ?? '').split(SEPARATOR).reverse();
    const item =
      use === undefined
        ? { type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text: 'done' }] }
        : {
            type: 'function_call',
            id: `fc_${results.length}`,
            call_id: `call_${results.length}`,
            name,
            ...(namespace === undefined ? {} : { namespace }),
            arguments: JSON.stringify(use.input),
          };
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    event(response, 'response.created', { response: { id } });
    event(response, 'response.output_item.done', { output_index: 0, item });
    const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
    event(response, 'response.completed', { response: { id, usage } });
    response.end();
  },
};
