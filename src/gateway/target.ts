import type { Principal } from '../model/client-profile.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import type { Capability, ServerCatalog } from '../model/server-catalog.ts';
import { namedParam } from './params.ts';

/** What a target is. `server`: a request that names nothing, or that the gateway does not know. */
type TargetKind = 'tool' | 'prompt' | 'resource' | 'template' | 'list' | 'server';

/**
 * Where one request of a client leads: made by the resolver of its endpoint, asked of the policies, sent by dispatch. One
 * object per call; name and definition are looked up when something asks for them.
 */
export class Target {
  readonly principal: Principal;
  readonly server: string;
  readonly kind: TargetKind;
  /** In the server's own names. */
  readonly request: Message;
  /** By which the client knows it; null where that is the own name. */
  readonly exposed: string | null;
  /** What is known of the server, as it is offered; null for nothing. */
  catalog: ServerCatalog | null;
  /** The server was listed for this request: it need not be asked again. */
  asked = false;
  /** The policies have let it through. */
  admitted = false;
  #name: string | GatewayError | null;
  #definition: Capability | null | undefined;

  constructor(
    principal: Principal,
    server: string,
    kind: TargetKind,
    request: Message,
    catalog: ServerCatalog | null,
    name: string | null = null,
    exposed: string | null = null,
    definition?: Capability,
  ) {
    this.principal = principal;
    this.server = server;
    this.kind = kind;
    this.request = request;
    this.catalog = catalog;
    this.exposed = exposed;
    this.#name = name;
    this.#definition = definition;
  }

  /** The server's own name or URI for it; an error where the request gives none. */
  get name(): string | GatewayError {
    if (this.#name === null) {
      const key = this.kind === 'resource' || this.kind === 'template' ? 'uri' : 'name';
      const within = this.request.method === 'completion/complete' ? 'ref' : undefined;
      const param = namedParam(this.request, key, within);
      this.#name = param instanceof GatewayError ? param : param.value;
    }
    return this.#name;
  }

  /** Of a tool; null where it is not known. */
  get definition(): Capability | null {
    if (this.#definition === undefined) {
      const { name, catalog } = this;
      const known = this.kind === 'tool' && catalog !== null && typeof name === 'string';
      this.#definition = known ? (toolsOf(catalog).get(name) ?? null) : null;
    }
    return this.#definition;
  }

  /** The server was listed meanwhile. The policies are asked again, as the definition may be another. */
  learn(catalog: ServerCatalog | null): void {
    this.asked = true;
    this.admitted = false;
    if (catalog === null || catalog === this.catalog) return;
    this.catalog = catalog;
    this.#definition = undefined;
  }
}

const TOOLS = new WeakMap<ServerCatalog, ReadonlyMap<string, Capability>>();

function toolsOf(catalog: ServerCatalog): ReadonlyMap<string, Capability> {
  let tools = TOOLS.get(catalog);
  if (tools === undefined)
    TOOLS.set(catalog, (tools = new Map(catalog.lists.tools.items.map((tool) => [tool.key, tool]))));
  return tools;
}
