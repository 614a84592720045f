// SPDX-License-Identifier: Apache-2.0

// Reads a model as Netron's page does, without a browser, and prints what the page would show of its main graph.
//
//     node netron.mjs FOLDER_OF_NETRON MODEL

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, file] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(path.join(folder, `${name.replace(/\.js$/, '')}.js`)).href);
const base = await load('base');
const view = await load('view');
const stream = async (name) => new base.BinaryStream(new Uint8Array(await readFile(name)));
const fail = (error) => { throw error; };
const request = (name, encoding) => encoding ? readFile(path.join(folder, name), encoding) : stream(path.join(folder, name));
const host = { environment: () => null, event: () => {}, exception: fail, require: load, request };
const context = {
    identifier: path.basename(file), stream: await stream(file), entries: new Map(), request, require: load,
    asset: (name) => request(name, 'utf-8'), fetch: (name) => request(name), error: fail, exception: fail
};
const model = await new view.ModelFactoryService(host).open(context);
const nodes = model.modules[0].nodes.map((node) => ({
    operator: `${node.type.module}.${node.type.name}`,
    kind: node.type.type,
    inputs: node.inputs.map((input) => input.name),
    attributes: node.attributes.map((attribute) => attribute.name),
    body: (node.type.nodes || []).map((inner) => inner.type.name)
}));
process.stdout.write(JSON.stringify({ imports: model.imports, nodes }));
