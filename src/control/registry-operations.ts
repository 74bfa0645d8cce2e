import { GivenInputs } from '../mcp-registry/given-inputs.ts';
import { RegistryError, type RegistryFault } from '../mcp-registry/registry-error.ts';
import { definitionOf, type ServerJson, viasOf, waysOf } from '../mcp-registry/server-json.ts';
import { serverNameOf } from '../model/names.ts';
import { anyObject, described, flag, list, nullable, object, optional, record, text } from '../model/schema.ts';
import { bodyOf } from './json-object.ts';
import { type ApiOperation, type ControlAnswer, ok, operation, problem } from './operation.ts';

const MAX_BODY_BYTES = 256 * 1024;
const STATUS: Readonly<Record<RegistryFault, number>> = { unreachable: 502, unknown: 404, invalid: 422 };

const LISTED = {
  name: described(text, 'As the registry has it, such as io.github.owner/server.'),
  version: text,
  description: text,
  status: described(text, '`active` or `deprecated`.'),
  ways: described(
    list(text),
    'How it can be run: `remote`, `sse`, `npm`, `pypi`, `oci`, `nuget`, `mcpb`. Empty: not here.',
  ),
};
const FOUND = object({
  registry: described(text, 'Its address, or its file or folder.'),
  servers: list(object(LISTED)),
});
const WANTED = object({
  server: described(text, 'The name in the registry; `@version` after it for another than the latest.'),
  via: optional(described(text, 'One of `ways`; the first by default.')),
  name: optional(described(text, 'Of the server here; what follows the `/` by default.')),
  values: optional(described(record(text), 'Of inputs, by their names. Secrets are not kept by this operation.')),
});
const PREPARED = object({
  ...LISTED,
  via: text,
  inputs: list(
    object({
      name: text,
      description: text,
      required: flag,
      secret: flag,
      choices: nullable(list(text)),
      default: nullable(text),
    }),
  ),
  lacking: described(list(text), 'Required inputs without a value.'),
  secrets: described(
    record(text),
    'For which inputs which secrets are to be set (`PUT /api/v1/secrets/{name}`) before the server is added.',
  ),
  definition: described(nullable(anyObject), 'For `POST /api/v1/servers`; null while inputs lack.'),
});

const ERRORS = {
  404: 'The registry has no such server or version.',
  422: 'The answer of the registry or a given value is invalid.',
  502: 'The registry does not answer.',
};

/** Operations on the registry of the configuration, or that of the MCP project. */
export const REGISTRY_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'searchRegistry',
    method: 'GET',
    path: '/api/v1/registry/servers',
    runsAt: 'this-node',
    summary: 'Servers of the MCP registry whose name or description has the words.',
    query: { search: { description: 'The words; without them all servers, as many as the registry gives at once.' } },
    schema: FOUND,
    errors: ERRORS,
    run: ({ query }, { mcpRegistry }) =>
      answered(async () => {
        const registry = await mcpRegistry();
        const entries = await registry.search(query.get('search') ?? '');
        const listed = entries.filter(({ status }) => status !== 'deleted');
        const servers = listed.map(({ server, status }) => ({
          ...shown(server),
          status,
          ways: viasOf(waysOf(server)),
        }));
        return ok({ registry: registry.source, servers });
      }),
  }),
  operation({
    id: 'prepareServer',
    method: 'POST',
    path: '/api/v1/registry/definition',
    runsAt: 'this-node',
    summary:
      'The definition of a server of the registry with these values of its inputs. Adds nothing and keeps nothing.',
    body: WANTED,
    maxBodyBytes: MAX_BODY_BYTES,
    schema: PREPARED,
    errors: { ...ERRORS, 400: 'The body is not what the operation takes.' },
    run: ({ body }, { mcpRegistry }) =>
      answered(async () => {
        const wanted = bodyOf(WANTED, body);
        if (typeof wanted === 'string') return problem(400, 'body_malformed', wanted);
        const { server, status, ways, way } = await (await mcpRegistry()).runnable(wanted.server, wanted.via);
        if (way.via === 'mcpb')
          throw new RegistryError(
            'invalid',
            `a bundle is unpacked by a command: trunkline add ${server.name} --via mcpb`,
          );
        const values = Object.entries(wanted.values ?? {}).map(([name, value]) => [name, [value]] as const);
        const given = new GivenInputs(wanted.name ?? serverNameOf(server.name), new Map(values));
        const definition = await definitionOf(way, server.description, given);
        if (given.unknown.length > 0)
          throw new RegistryError('invalid', `${given.unknown.join(', ')} is no input of this server`);
        return ok({
          ...shown(server),
          status,
          ways,
          via: way.via,
          inputs: Array.from(given.inputs, ([name, input]) => ({
            name,
            description: input.description ?? '',
            required: input.isRequired === true,
            secret: input.isSecret === true,
            choices: input.choices ?? null,
            default: input.default ?? null,
          })),
          lacking: [...given.missing.keys()],
          secrets: given.secretNames,
          definition: given.missing.size > 0 ? null : { name: given.server, ...definition },
        });
      }),
  }),
];

function shown({ name, version, description = '' }: ServerJson) {
  return { name, version, description };
}

async function answered<T>(run: () => Promise<ControlAnswer<T>>): Promise<ControlAnswer<T>> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof RegistryError)) throw error;
    return problem(STATUS[error.fault], `registry_${error.fault}`, error.message);
  }
}
