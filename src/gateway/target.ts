import type { Principal } from '../model/client-profile.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { type Capability, type ServerCatalog, toolsByName } from '../model/server-catalog.ts';
import { namedParam } from './params.ts';

/** The kind of a target. `server`: a request that names nothing, or that the gateway does not know. */
type TargetKind = 'tool' | 'prompt' | 'resource' | 'template' | 'list' | 'server';

/**
 * The destination of one client request: the endpoint's resolver makes it, the policies check it, dispatch sends to it. One
 * object per call; name and definition are looked up on first use.
 */
export class Target {
  readonly principal: Principal;
  readonly server: string;
  readonly kind: TargetKind;
  /** The request with the server's own names. */
  readonly request: Message;
  /** The name by which the client knows it; null if that is the own name. */
  readonly exposed: string | null;
  /** The server's catalog as it is offered; null if not known. */
  catalog: ServerCatalog | null;
  /** Whether the server was listed for this request: it is not listed again. */
  listed = false;
  /** Whether the policies have admitted it. */
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

  /** The server's own name or URI for it; an error if the request gives none. */
  get name(): string | GatewayError {
    if (this.#name === null) {
      const key = this.kind === 'resource' || this.kind === 'template' ? 'uri' : 'name';
      const within = this.request.method === 'completion/complete' ? 'ref' : undefined;
      const param = namedParam(this.request, key, within);
      this.#name = param instanceof GatewayError ? param : param.value;
    }
    return this.#name;
  }

  /** The definition of a tool; null if not known. */
  get definition(): Capability | null {
    if (this.#definition === undefined) {
      const { name, catalog } = this;
      const known = this.kind === 'tool' && catalog !== null && typeof name === 'string';
      this.#definition = known ? (toolsByName(catalog).get(name) ?? null) : null;
    }
    return this.#definition;
  }

  /** Takes over a new listing. The policies are evaluated again, because the definition may have changed. */
  learn(catalog: ServerCatalog | null): void {
    this.listed = true;
    this.admitted = false;
    if (catalog === null || catalog === this.catalog) return;
    this.catalog = catalog;
    this.#definition = undefined;
  }
}
