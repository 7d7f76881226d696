// A tile that sends packets of one flit at random times, and checks what it gets.
//
// Packets wait in a queue of CAPACITY before they enter the network; while it is full none are made.
// A flit holds, from its lowest bit: destination x and y, source x and y, its number among those from
// its source to its destination, and the first cycle in which it could enter. The seed decides
// everything.

module noc_traffic #(
    parameter int X = 0,
    parameter int Y = 0,
    parameter int MESH_X = 4,
    parameter int MESH_Y = 4,
    parameter int CAPACITY = 2000
) (
    input logic clk,
    input logic rst,
    input logic [31:0] cycle,
    input logic measuring,
    input logic [31:0] seed,
    input logic [32:0] load,      // packets per cycle, times 2^32
    input logic [2:0] pattern,
    input logic [32:0] hot,       // share of what goes to the hot tile, times 2^32
    input logic single,  // from_tile sends a packet to (to_x, to_y) in cycle 16, and that is all
    input logic [7:0] from_tile,
    input logic [3:0] to_x,
    input logic [3:0] to_y,

    output logic [64:0] inject_payload,
    output logic inject_valid,
    input logic inject_ready,
    input logic [64:0] eject_payload,
    input logic eject_valid,

    output logic [31:0] injected,
    output logic [31:0] ejected,
    output logic [63:0] latency,
    output logic [31:0] errors
);
    localparam int TILES = MESH_X * MESH_Y;
    localparam int SELF = X + MESH_X * Y;
    localparam int HOT_X = MESH_X / 2;
    localparam int HOT_Y = MESH_Y / 2;
    localparam logic [2:0] UNIFORM = 0, TRANSPOSE = 1, COMPLEMENT = 2, HOTSPOT = 3, NEIGHBOUR = 4;

    typedef struct packed {
        logic [3:0] y;
        logic [3:0] x;
    } place_t;

    logic [39:0] waiting[2048];  // {cycle, destination}
    logic [10:0] head, tail;
    logic [15:0] sent[256], expected[256];

    // xorshift64: two numbers of 32 bits for each cycle
    logic [63:0] state;
    function automatic logic [63:0] next(input logic [63:0] s);
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        return s;
    endfunction

    function automatic place_t place(input int tile);
        place.x = 4'(tile % MESH_X);
        place.y = 4'(tile / MESH_X);
    endfunction

    function automatic place_t other(input logic [31:0] random);
        int tile = int'((64'(random) * 64'(TILES - 1)) >> 32);
        return place(tile >= SELF ? tile + 1 : tile);
    endfunction

    function automatic place_t neighbour(input logic [31:0] random);
        place_t near[4];
        int count = 0;
        if (X + 1 < MESH_X) near[count++] = '{x: 4'(X + 1), y: 4'(Y)};
        if (X > 0) near[count++] = '{x: 4'(X - 1), y: 4'(Y)};
        if (Y + 1 < MESH_Y) near[count++] = '{x: 4'(X), y: 4'(Y + 1)};
        if (Y > 0) near[count++] = '{x: 4'(X), y: 4'(Y - 1)};
        return near[2'((64'(random) * 64'(count)) >> 32)];
    endfunction

    place_t chosen;
    logic [63:0] second;
    always_comb begin
        second = next(state);
        case (pattern)
            TRANSPOSE: chosen = '{x: 4'(Y), y: 4'(X)};
            COMPLEMENT: chosen = '{x: 4'(MESH_X - 1 - X), y: 4'(MESH_Y - 1 - Y)};
            HOTSPOT:
            if (SELF != HOT_X + MESH_X * HOT_Y && {1'b0, second[63:32]} < hot)
                chosen = '{x: 4'(HOT_X), y: 4'(HOT_Y)};
            else chosen = other(second[31:0]);
            NEIGHBOUR: chosen = neighbour(second[31:0]);
            default: chosen = other(second[31:0]);
        endcase
    end

    wire makes = single ? cycle == 16 && from_tile == 8'(SELF)
                        : {1'b0, state[63:32]} < load && 11'(tail - head) < 11'(CAPACITY);
    wire [39:0] first = waiting[head];
    wire [7:0] to = first[7:0];
    wire takes = inject_valid && inject_ready;
    assign inject_valid = head != tail;
    assign inject_payload = {1'b1, first[39:8], sent[to], 4'(Y), 4'(X), to};

    wire [7:0] from = eject_payload[15:8];
    wire wrong = eject_payload[7:0] != {4'(Y), 4'(X)} || !eject_payload[64]
        || eject_payload[31:16] != expected[from];

    always_ff @(posedge clk) begin
        if (rst) begin
            state <= 64'h9E3779B97F4A7C15 ^ (64'(SELF + 1) * 64'hBF58476D1CE4E5B9)
                ^ (64'(seed) << 20);
            head <= 0;
            tail <= 0;
            injected <= 0;
            ejected <= 0;
            latency <= 0;
            errors <= 0;
            for (int i = 0; i < 256; i++) begin
                sent[i] <= 0;
                expected[i] <= 0;
            end
        end else begin
            state <= next(second);
            if (makes) begin
                waiting[tail] <= {cycle + 1, single ? {to_y, to_x} : chosen};
                tail <= tail + 1;
            end
            if (takes) begin
                head <= head + 1;
                sent[to] <= sent[to] + 1;
                injected <= injected + 32'(measuring);
            end
            if (eject_valid) begin
                expected[from] <= eject_payload[31:16] + 1;
                errors <= errors + 32'(wrong);
                if (measuring) begin
                    ejected <= ejected + 1;
                    latency <= latency + 64'(cycle - eject_payload[63:32]);
                end
            end
        end
    end
endmodule
