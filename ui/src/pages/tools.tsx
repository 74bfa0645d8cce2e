import { useComputed, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { CLIENT_TITLES } from '../../../src/model/client-titles.ts';
import { counted } from '../../../src/model/counted.ts';
import { LINKED_NAME } from '../../../src/model/names.ts';
import type { Tool } from '../api/operations.ts';
import { Command, shellWord } from '../parts/command.tsx';
import { Empty, Unread } from '../parts/notes.tsx';
import { clock } from '../parts/reading.ts';
import { Status } from '../parts/status.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { href, navigate, replace, route, setQuery } from '../router.ts';
import {
  definitionOf,
  followTools,
  hiddenTools,
  readShown,
  type ShownTools,
  shares,
  thousands,
  tools,
  toolsReader,
} from './tools/catalog.ts';
import { ToolDetail } from './tools/tool-detail.tsx';
import './tools/tools.css';

/** `#/tools/<server>/<tool>?q=…&as=codex&name=tl` */
export default function Tools() {
  useEffect(followTools, []);
  const { rest, query } = route.value;
  const [server = '', name = ''] = rest;
  const as = query.get('as') ?? '';
  const gatewayName = query.get('name') ?? LINKED_NAME;
  const shown = useShown(as, gatewayName);
  if (tools.value === null) return <Unread of={toolsReader} what="tools" />;
  const words = (query.get('q') ?? '').toLowerCase().split(/\s+/).filter(Boolean);
  const rows = tools.value.filter((tool) => (server === '' || tool.server === server) && matches(tool, words));
  const open = tools.value.find((tool) => tool.server === server && tool.name === name);
  const total = shares.value.reduce((sum, { tokens }) => sum + tokens, 0);
  const queryNow = Object.fromEntries(query);
  return (
    <>
      <h1>Tools</h1>
      <div class="toolbar">
        <input
          type="search"
          aria-label="Search tools by name and description"
          placeholder="Search names and descriptions"
          value={query.get('q') ?? ''}
          onInput={({ currentTarget }) => setQuery({ q: currentTarget.value })}
        />
        <select
          aria-label="Server"
          value={server}
          onChange={({ currentTarget }) => navigate(['tools', ...one(currentTarget.value)], queryNow)}
        >
          <option value="">
            All servers: {counted(tools.value.length, 'tool')}, about {thousands(total)} tokens
          </option>
          {shares.value.map((share) => (
            <option key={share.server} value={share.server}>
              {share.server}: {counted(share.count, 'tool')}, about {thousands(share.tokens)} tokens
            </option>
          ))}
        </select>
        <select
          aria-label="As seen by"
          value={as}
          onChange={({ currentTarget }) => setQuery({ as: currentTarget.value })}
        >
          <option value="">As the gateway exposes them to a client without capabilities</option>
          {Object.entries(CLIENT_TITLES).map(([id, title]) => (
            <option key={id} value={id}>
              As {title} shows them
            </option>
          ))}
        </select>
        {as === '' ? null : (
          <input
            type="text"
            class="short"
            aria-label="Name of the gateway in the client’s file"
            title="Name of the gateway in the client’s file"
            maxLength={64}
            value={gatewayName}
            onChange={({ currentTarget }) => setQuery({ name: currentTarget.value })}
          />
        )}
      </div>
      {shown === null ? null : <ClientSummary shown={shown} gatewayName={gatewayName} />}
      <div class={open === undefined ? 'tools-view' : 'tools-view with-detail'}>
        <Table
          label="Tools"
          rows={rows}
          keyOf={keyOf}
          columns={columnsFor(shown, open !== undefined)}
          selected={open === undefined ? undefined : keyOf(open)}
          onOpen={(tool) => navigate(['tools', tool.server, tool.name], queryNow)}
          empty={<NoTools searched={words.length > 0} server={server} />}
        />
        {open === undefined ? null : (
          <div class="detail-side">
            <button type="button" class="plain" onClick={() => replace(['tools', ...one(server)], queryNow)}>
              Close
            </button>
            <ToolDetail tool={open} gatewayName={gatewayName} />
          </div>
        )}
      </div>
      {name !== '' && open === undefined ? (
        <Empty title={`${server} offers no tool named ${name} now`}>
          <p>
            <a href={href(['tools', server])}>Its tools</a>
          </p>
        </Empty>
      ) : null}
      <NotOffered server={server} />
    </>
  );
}

function useShown(as: string, gatewayName: string): ShownTools | null {
  const shown = useSignal<ShownTools | null>(null);
  const version = useComputed(() => tools.value).value;
  useEffect(() => {
    if (as === '') shown.value = null;
    else if (gatewayName !== '')
      readShown(as, gatewayName).then(
        (view) => (shown.value = view),
        () => (shown.value = null),
      );
  }, [as, gatewayName, version]);
  return shown.value?.client === as ? shown.value : null;
}

function one(server: string): string[] {
  return server === '' ? [] : [server];
}

function keyOf(tool: Tool): string {
  return tool.exposedName;
}

/** What a search looks at, made once. */
const searched = new WeakMap<Tool, string>();

function matches(tool: Tool, words: readonly string[]): boolean {
  if (words.length === 0) return true;
  let text = searched.get(tool);
  if (text === undefined) {
    const { title = '', description = '' } = definitionOf(tool);
    text = `${tool.exposedName} ${tool.name} ${title} ${description}`.toLowerCase();
    searched.set(tool, text);
  }
  return words.every((word) => text.includes(word));
}

const SERVER: Column<Tool> = {
  id: 'server',
  title: 'Server',
  width: 'minmax(6rem, 1fr)',
  cell: ({ server }) => server,
  order: ({ server }) => server,
};
const COST: Column<Tool> = {
  id: 'tokens',
  title: 'Tokens',
  width: '5rem',
  align: 'end',
  cell: ({ tokens }) => thousands(tokens),
  order: ({ tokens }) => tokens,
};
const COLUMNS: readonly Column<Tool>[] = [
  SERVER,
  {
    id: 'name',
    title: 'Tool',
    width: 'minmax(9rem, 2fr)',
    cell: ({ server, name }) => (
      <a href={href(['tools', server, name], Object.fromEntries(route.value.query))}>{name}</a>
    ),
    order: ({ name }) => name,
  },
  {
    id: 'exposed',
    title: 'Exposed as',
    width: 'minmax(9rem, 2fr)',
    wideOnly: true,
    cell: ({ exposedName, renamed }) => <code title={renamed ?? ''}>{exposedName}</code>,
  },
  {
    id: 'length',
    title: 'Length',
    width: '4.5rem',
    align: 'end',
    wideOnly: true,
    cell: ({ exposedName }) => exposedName.length,
    order: ({ exposedName }) => exposedName.length,
  },
  COST,
  {
    id: 'used',
    title: 'Last used',
    width: '9rem',
    wideOnly: true,
    cell: ({ lastUsed }) => (lastUsed === null ? <span class="soft">–</span> : clock(lastUsed)),
    order: ({ lastUsed }) => lastUsed ?? '',
  },
];

/** Beside a tool there is less room. */
function columnsFor(shown: ShownTools | null, beside: boolean): readonly Column<Tool>[] {
  const columns = shown === null ? COLUMNS : clientColumns(shown);
  return beside ? columns.filter(({ id }) => !BESIDE.has(id)) : columns;
}

const BESIDE: ReadonlySet<string> = new Set(['server', 'exposed', 'used']);

function clientColumns(shown: ShownTools): readonly Column<Tool>[] {
  const own = (tool: Tool) => shown.byName.get(tool.exposedName);
  return [
    // The shown name has it.
    { ...SERVER, wideOnly: true },
    {
      id: 'shown',
      title: `As ${shown.title} shows it`,
      width: 'minmax(10rem, 3fr)',
      cell: (tool) => <code>{own(tool)?.shown}</code>,
      order: (tool) => own(tool)?.shown ?? '',
    },
    {
      id: 'length',
      title: 'Length',
      width: '6rem',
      align: 'end',
      cell: (tool) => `${own(tool)?.length ?? ''}/${shown.limit}`,
      order: (tool) => own(tool)?.length ?? 0,
    },
    {
      id: 'fate',
      title: 'What becomes of it',
      width: '11rem',
      wideOnly: true,
      cell(tool) {
        const beyond = own(tool)?.beyond ?? null;
        if (beyond === null) return <Status tone="good" text={shown.deferred ? 'found by search' : 'sent'} />;
        return <Status tone={beyond === 'shortened' ? 'warn' : 'bad'} text={`${beyond}: too long`} />;
      },
      order: (tool) => own(tool)?.beyond ?? '',
    },
    COST,
  ];
}

function ClientSummary({ shown, gatewayName }: { readonly shown: ShownTools; readonly gatewayName: string }) {
  const { client, title, offered, tokens, deferred, maxTools } = shown;
  const lost = shown.tools.filter(({ beyond }) => beyond === 'dropped' || beyond === 'refused').length;
  const tooMany = maxTools !== null && offered > maxTools;
  return (
    <div class="panel">
      <p>
        {title} has {counted(offered, 'tool')} of this gateway, about {thousands(tokens)} tokens
        {deferred ? '; it sends their definitions only when its model searches for a tool' : ' in every conversation'}.
      </p>
      {lost > 0 ? (
        <Status tone="bad" text={`${lost} names are too long for it. A shorter name of the gateway helps.`} />
      ) : null}
      {tooMany ? <Status tone="warn" text={`It gives its model no more than ${maxTools} tools.`} /> : null}
      <Command
        text={`trunkline tools --as ${shellWord(client)}${gatewayName === LINKED_NAME ? '' : ` --name ${shellWord(gatewayName)}`}`}
      />
    </div>
  );
}

function NoTools({ searched, server }: { readonly searched: boolean; readonly server: string }) {
  if (searched)
    return (
      <Empty title="No tool has these words">
        <button type="button" onClick={() => setQuery({ q: '' })}>
          Clear the search
        </button>
      </Empty>
    );
  return (
    <Empty title={server === '' ? 'No server offers tools yet' : `${server} offers no tools`}>
      <p>
        The state of <a href={href(['servers', ...one(server)])}>{server === '' ? 'the servers' : server}</a> says why.
      </p>
      <Command text="trunkline add" />
    </Empty>
  );
}

function NotOffered({ server }: { readonly server: string }) {
  const hidden = hiddenTools.value.filter((tool) => server === '' || tool.server === server);
  if (hidden.length === 0) return null;
  return (
    <details class="panel">
      <summary>
        {counted(hidden.length, 'tool')} {hidden.length === 1 ? 'is' : 'are'} not offered to clients
      </summary>
      <ul class="schema">
        {hidden.map((tool) => (
          <li key={`${tool.server} ${tool.name}`}>
            <code>{tool.name}</code> of {tool.server} <span class="badge">{tool.state}</span>{' '}
            <span class="soft">{tool.reason}</span>
            {tool.state === 'withheld' ? (
              <>
                {' '}
                <a href={href(['drift', tool.server])}>Decide</a> <Command text={`trunkline drift ${tool.server}`} />
              </>
            ) : null}
          </li>
        ))}
      </ul>
    </details>
  );
}
