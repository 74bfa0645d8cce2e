import {
  anyObject,
  count,
  described,
  flag,
  type Infer,
  isoTime,
  list,
  named,
  nullable,
  object,
  oneOf,
  text,
} from '../model/schema.ts';

const HIDDEN_TOOL = named(
  'HiddenTool',
  object({
    server: text,
    name: text,
    state: described(
      oneOf(['filtered', 'withheld', 'unnamed']),
      '`filtered`: by includeTools or excludeTools; `withheld`: waits for approval or is blocked; `unnamed`: no name that clients accept.',
    ),
    reason: text,
  }),
  'A tool that a server lists and clients do not get.',
);
export type HiddenTool = Infer<typeof HIDDEN_TOOL>;

const TOOL = named(
  'Tool',
  object({
    exposedName: text,
    server: text,
    name: text,
    renamed: described(nullable(text), 'Why the exposed name is not `server__name`; null where it is.'),
    bytes: described(count, 'Length of the definition as clients of `/mcp` get it.'),
    tokens: described(count, 'Estimate of what the definition costs in a context: a quarter of its bytes.'),
    lastUsed: described(nullable(isoTime), 'Of the calls that this node keeps, see `listCalls`; null for none.'),
    definition: described(anyObject, 'As the server wrote it.'),
  }),
);
export type ListedTool = Infer<typeof TOOL>;
export const TOOLS = object({ tools: list(TOOL), notOffered: list(HIDDEN_TOOL) });

const CLIENT_VIEW = named(
  'ClientView',
  object({
    client: text,
    title: text,
    limit: described(count, 'Longest name, as the client counts it.'),
    maxTools: described(nullable(count), 'The most tools that it gives to a model; null for no known limit.'),
    offered: described(count, 'Tools whose names fit or are shortened.'),
    tokens: described(count, 'Estimate for all that is offered.'),
    deferred: described(flag, 'It sends definitions only when the model searches for a tool.'),
    tools: list(
      object({
        server: text,
        exposedName: text,
        shown: described(text, 'The name as the model gets it, before it is shortened.'),
        length: count,
        beyond: described(
          nullable(oneOf(['dropped', 'shortened', 'refused'])),
          'What happens because the name is too long: the tool is left out, the name is shortened, or the API of the model refuses the request. null where it fits.',
        ),
        tokens: count,
      }),
    ),
  }),
);
export type ShownClient = Infer<typeof CLIENT_VIEW>;
export const CLIENT_VIEWS = object({ clients: list(CLIENT_VIEW) });
