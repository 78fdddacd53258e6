# One file for the three programs: docker build --target worker|starter|sandbox .
# The programs are static, so the final images hold them, certificates and time zones, and no shell; they run as an ordinary user.

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ENV CGO_ENABLED=0
RUN go build -trimpath -buildvcs=false -ldflags="-s -w" -o /out/ ./worker ./starter ./sandbox

FROM gcr.io/distroless/static-debian12:nonroot AS worker
COPY --from=build /out/worker /worker
ENTRYPOINT ["/worker"]

FROM gcr.io/distroless/static-debian12:nonroot AS starter
COPY --from=build /out/starter /starter
EXPOSE 8080 8081
ENTRYPOINT ["/starter"]

FROM gcr.io/distroless/static-debian12:nonroot AS sandbox
COPY --from=build /out/sandbox /sandbox
EXPOSE 8090
ENTRYPOINT ["/sandbox"]
